/* Directories of a server: made with what is missing above them, and listed. */
#ifndef RFIO_XROOTD_DIRECTORIES_HH
#define RFIO_XROOTD_DIRECTORIES_HH

#include "outcome.hh"
#include "server.hh"

#include <XrdCl/XrdClFileSystem.hh>
#include <string>
#include <sys/types.h>

namespace rfio
{

/* Makes a directory and whatever is missing above it; one that is there already is as good. */
XrdCl::XRootDStatus make_directories(const Server &server, const std::string &path, mode_t mode);

/* The directory above a path. */
std::string parent_of(const std::string &path);

/* What is in a directory; with DirListFlags::Recursive what is below it as well, by its path from there. */
Outcome list(const Server &server, const std::string &path, XrdCl::DirListFlags::Flags flags);

}

#endif
