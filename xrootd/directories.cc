#include "directories.hh"

#include "attributes.hh"

#include <algorithm>
#include <cerrno>
#include <rfio_api.h>
#include <sys/stat.h>

using namespace XrdCl;

namespace rfio
{

std::string parent_of(const std::string &path)
{
	const std::string plain = path_of(path);
	const size_t end = plain.find_last_not_of('/');
	const size_t slash = end == std::string::npos ? end : plain.find_last_of('/', end);
	return slash == std::string::npos ? "/" : plain.substr(0, slash + 1);
}

XRootDStatus make_directories(const Server &server, const std::string &path, mode_t mode)
{
	const std::string plain = path_of(path);
	for (size_t at = 0; at < plain.size();) {
		const size_t begin = plain.find_first_not_of('/', at);
		if (begin == std::string::npos)
			break;
		at = std::min(plain.find('/', begin), plain.size());
		const std::string name = server.name_of(plain.substr(0, at));
		if (rfio_mkdir(name.c_str(), static_cast<int>(mode)) < 0 && rfio_errno != EEXIST)
			return failure(name);
	}
	return done();
}

/* Replaces a link's attributes by those of its target; keeps those of a dangling link. */
static void follow(const std::string &name, rfio_attributes &about)
{
	rfio_attributes target;
	if (S_ISLNK(about.mode) && rfio_examine(name.c_str(), &target) == 0)
		about = target;
}

/* Adds the entries of the directory `below` of `path`. */
static XRootDStatus add(DirectoryList &found, const Server &server, const std::string &path, const std::string &below,
                        DirListFlags::Flags flags)
{
	const std::string directory = server.name_of(path_of(path) + "/" + below);
	DIR *open = rfio_opendir(directory.c_str());
	if (open == nullptr)
		return failure(directory);
	XRootDStatus status = done();
	char name[4096];
	rfio_attributes about;
	int more = 0;
	while (status.IsOK() && (more = rfio_readentry(open, name, sizeof name, &about)) > 0) {
		/* Links are not followed in the recursion: they may lead back up. */
		const bool descends = (flags & DirListFlags::Recursive) && S_ISDIR(about.mode);
		/* A recursive listing always has attributes, as with XRootD's servers. */
		std::unique_ptr<StatInfo> stat;
		if (flags & (DirListFlags::Stat | DirListFlags::Recursive)) {
			follow(directory + "/" + name, about);
			stat = stat_of(about);
		}
		found.Add(new DirectoryList::ListEntry(server.host(), below + name, stat.release()));
		if (descends)
			status = add(found, server, path, below + name + "/", flags);
	}
	if (status.IsOK() && more < 0)
		status = failure(directory);
	rfio_closedir(open);
	return status;
}

Outcome list(const Server &server, const std::string &path, DirListFlags::Flags flags)
{
	auto found = std::make_unique<DirectoryList>();
	found->SetParentName(path_of(path));
	const XRootDStatus status = add(*found, server, path, "", flags);
	if (!status.IsOK())
		return status;
	return found;
}

}
