#include "vector.hh"

#include <XProtocol/XProtocol.hh>
#include <climits>
#include <rfio_api.h>
#include <vector>

using namespace XrdCl;

namespace rfio
{

Outcome read_vector(int descriptor, const std::string &about, const ChunkList &chunks, void *buffer)
{
	std::vector<iovec64> ranges;
	uint64_t total = 0;
	for (const ChunkInfo &chunk : chunks) {
		if (chunk.length > INT_MAX || (total += chunk.length) > UINT32_MAX)
			return refusal(kXR_ArgTooLong, about + ": more than a vector may have");
		ranges.push_back({static_cast<__off64_t>(chunk.offset), static_cast<int>(chunk.length)});
	}
	if (rfio_preseek64(descriptor, ranges.data(), static_cast<int>(ranges.size())) < 0)
		return failure(about);

	auto found = std::make_unique<VectorReadInfo>();
	char *next = static_cast<char *>(buffer);
	for (const ChunkInfo &chunk : chunks) {
		void *into = buffer ? next : chunk.buffer;
		const ssize_t read = rfio_pread64(descriptor, into, chunk.length, static_cast<__off64_t>(chunk.offset));
		if (read < 0)
			return failure(about);
		if (read < static_cast<ssize_t>(chunk.length))
			return refusal(kXR_IOError, about + ": a vector reaches beyond the end of the file");
		found->GetChunks().push_back(ChunkInfo(chunk.offset, chunk.length, into));
		next += buffer ? chunk.length : 0;
	}
	found->SetSize(static_cast<uint32_t>(total));
	return found;
}

}
