/* Checksums of whole files by XRootD's names, adler32 and crc32c. */
#ifndef RFIO_XROOTD_CHECKSUM_HH
#define RFIO_XROOTD_CHECKSUM_HH

#include "outcome.hh"

#include <string>

namespace rfio
{

/* The answer to `query config chksum`: the numbered kinds, the default first. */
extern const char *const checksum_kinds;

/* The answer to a query for a file's checksum: the kind and the sum in hex. The server computes crc32c itself;
 * for adler32 this process reads the file. */
Outcome checksum_of(const std::string &name, const std::string &parameters);

}

#endif
