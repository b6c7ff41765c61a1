/* Requests on the data of an open RFIO file. `about` names it in errors. */
#ifndef RFIO_XROOTD_BYTES_HH
#define RFIO_XROOTD_BYTES_HH

#include "outcome.hh"

#include <cstdint>
#include <string>

namespace rfio
{

Outcome read_bytes(int descriptor, const std::string &about, uint64_t offset, uint32_t size, void *buffer);

/* The same, with the checksums of the pages. */
Outcome read_pages(int descriptor, const std::string &about, uint64_t offset, uint32_t size, void *buffer);

Outcome write_bytes(int descriptor, const std::string &about, uint64_t offset, uint32_t size, const void *buffer);

Outcome synchronise(int descriptor, const std::string &about);

Outcome truncate(int descriptor, const std::string &about, uint64_t size);

}

#endif
