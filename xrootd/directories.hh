/* Creates and lists directories of a server. */
#ifndef RFIO_XROOTD_DIRECTORIES_HH
#define RFIO_XROOTD_DIRECTORIES_HH

#include "outcome.hh"
#include "server.hh"

#include <XrdCl/XrdClFileSystem.hh>
#include <string>
#include <sys/types.h>

namespace rfio
{

/* Creates a directory and its missing parents; succeeds if it exists. */
XrdCl::XRootDStatus make_directories(const Server &server, const std::string &path, mode_t mode);

/* Returns the parent directory of a path. */
std::string parent_of(const std::string &path);

/* Lists a directory; with DirListFlags::Recursive also its subdirectories, by their relative paths. */
Outcome list(const Server &server, const std::string &path, XrdCl::DirListFlags::Flags flags);

}

#endif
