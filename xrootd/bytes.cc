#include "bytes.hh"

#include "pages.hh"

#include <rfio_api.h>

using namespace XrdCl;

namespace rfio
{

Outcome read_bytes(int descriptor, const std::string &about, uint64_t offset, uint32_t size, void *buffer)
{
	const ssize_t read = rfio_pread64(descriptor, buffer, size, static_cast<__off64_t>(offset));
	if (read < 0)
		return failure(about);
	return std::make_unique<ChunkInfo>(offset, static_cast<uint32_t>(read), buffer);
}

Outcome read_pages(int descriptor, const std::string &about, uint64_t offset, uint32_t size, void *buffer)
{
	const ssize_t read = rfio_pread64(descriptor, buffer, size, static_cast<__off64_t>(offset));
	if (read < 0)
		return failure(about);
	return pages(offset, static_cast<uint32_t>(read), buffer);
}

Outcome write_bytes(int descriptor, const std::string &about, uint64_t offset, uint32_t size, const void *buffer)
{
	return rfio_pwrite64(descriptor, buffer, size, static_cast<__off64_t>(offset)) < 0 ? failure(about) : done();
}

Outcome synchronise(int descriptor, const std::string &about)
{
	return status_of(rfio_fsync(descriptor), about);
}

Outcome truncate(int descriptor, const std::string &about, uint64_t size)
{
	return status_of(rfio_ftruncate64(descriptor, static_cast<__off64_t>(size)), about);
}

}
