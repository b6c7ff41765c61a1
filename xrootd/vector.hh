/* Vector reads: many parts of a file with one request. */
#ifndef RFIO_XROOTD_VECTOR_HH
#define RFIO_XROOTD_VECTOR_HH

#include "outcome.hh"

#include <string>

namespace rfio
{

/* Reads the chunks of an open file, contiguously into `buffer`, or, if it is null, each into its own. */
Outcome read_vector(int descriptor, const std::string &about, const XrdCl::ChunkList &chunks, void *buffer);

/* The same for a file that a ticket has opened, without concurrent requests: requests all chunks from the server at once, and
 * copies each from the reply. */
Outcome read_announced(int descriptor, const std::string &about, const XrdCl::ChunkList &chunks, void *buffer);

}

#endif
