/* The pages of a read, each with its checksum. */
#ifndef RFIO_XROOTD_PAGES_HH
#define RFIO_XROOTD_PAGES_HH

#include <XrdCl/XrdClXRootDResponses.hh>
#include <memory>

namespace rfio
{

/* Data at an offset, with the CRC32C of each page of the file: the first and last may be partial. */
std::unique_ptr<XrdCl::PageInfo> pages(uint64_t offset, uint32_t length, void *data);

}

#endif
