#include "vector.hh"

#include <XProtocol/XProtocol.hh>
#include <climits>
#include <cstring>
#include <rfio_api.h>
#include <vector>

using namespace XrdCl;

namespace rfio
{

/* Converts chunks to ranges and computes their total length; fails with the reason. */
static XRootDStatus ranges_of(const ChunkList &chunks, const std::string &about, std::vector<iovec64> &ranges, uint64_t &total)
{
	for (const ChunkInfo &chunk : chunks) {
		if (chunk.length > INT_MAX || (total += chunk.length) > UINT32_MAX)
			return refusal(kXR_ArgTooLong, about + ": the vector is too long");
		ranges.push_back({static_cast<__off64_t>(chunk.offset), static_cast<int>(chunk.length)});
	}
	return done();
}

static XRootDStatus too_short(const std::string &about)
{
	return refusal(kXR_IOError, about + ": a vector reaches beyond the end of the file");
}

Outcome read_vector(int descriptor, const std::string &about, const ChunkList &chunks, void *buffer)
{
	std::vector<iovec64> ranges;
	uint64_t total = 0;
	const XRootDStatus fits = ranges_of(chunks, about, ranges, total);
	if (!fits.IsOK())
		return fits;
	/* Read directly into the destination if it is contiguous. */
	std::vector<char> aside(buffer ? 0 : total);
	char *const into = buffer ? static_cast<char *>(buffer) : aside.data();
	std::vector<int> lengths(ranges.size());
	rfio_request *request =
	    rfio_begin_preadv(descriptor, ranges.data(), static_cast<int>(ranges.size()), into, total, lengths.data());
	if (!request || rfio_request_finish(request) < 0)
		return failure(about);

	auto found = std::make_unique<VectorReadInfo>();
	const char *next = into;
	for (size_t i = 0; i < chunks.size(); i++) {
		const ChunkInfo &chunk = chunks[i];
		if (lengths[i] < static_cast<int>(chunk.length))
			return too_short(about);
		if (!buffer && chunk.length > 0)
			memcpy(chunk.buffer, next, chunk.length);
		found->GetChunks().push_back(ChunkInfo(chunk.offset, chunk.length, buffer ? const_cast<char *>(next) : chunk.buffer));
		next += chunk.length;
	}
	found->SetSize(static_cast<uint32_t>(total));
	return found;
}

Outcome read_announced(int descriptor, const std::string &about, const ChunkList &chunks, void *buffer)
{
	std::vector<iovec64> ranges;
	uint64_t total = 0;
	const XRootDStatus fits = ranges_of(chunks, about, ranges, total);
	if (!fits.IsOK())
		return fits;
	if (rfio_preseek64(descriptor, ranges.data(), static_cast<int>(ranges.size())) < 0)
		return failure(about);

	auto found = std::make_unique<VectorReadInfo>();
	char *next = static_cast<char *>(buffer);
	for (const ChunkInfo &chunk : chunks) {
		void *const into = buffer ? next : chunk.buffer;
		const ssize_t read = rfio_pread64(descriptor, into, chunk.length, static_cast<__off64_t>(chunk.offset));
		if (read < 0)
			return failure(about);
		if (static_cast<size_t>(read) < chunk.length)
			return too_short(about);
		found->GetChunks().push_back(ChunkInfo(chunk.offset, chunk.length, into));
		next += buffer ? chunk.length : 0;
	}
	found->SetSize(static_cast<uint32_t>(total));
	return found;
}

}
