#include "attributes.hh"

#include <iomanip>
#include <sstream>
#include <sys/stat.h>

using namespace XrdCl;

namespace rfio
{

/* The access of the server's user is not known here: a permission bit of any user class counts. */
static uint32_t flags_of(mode_t mode)
{
	uint32_t flags = 0;
	if (S_ISDIR(mode))
		flags |= StatInfo::IsDir;
	else if (!S_ISREG(mode))
		flags |= StatInfo::Other;
	if (mode & (S_IXUSR | S_IXGRP | S_IXOTH))
		flags |= StatInfo::XBitSet;
	if (mode & (S_IRUSR | S_IRGRP | S_IROTH))
		flags |= StatInfo::IsReadable;
	if (mode & (S_IWUSR | S_IWGRP | S_IWOTH))
		flags |= StatInfo::IsWritable;
	return flags;
}

std::unique_ptr<StatInfo> stat_of(const rfio_attributes &about)
{
	const int64_t second = 1000000000;
	/* A complete server response: time, mode and owner cannot be set otherwise. */
	std::ostringstream answer;
	answer << about.inode << ' ' << about.size << ' ' << flags_of(about.mode) << ' ' << about.modified / second << ' '
	       << about.changed / second << ' ' << about.accessed / second << ' ' << std::oct << std::setfill('0')
	       << std::setw(4) << (about.mode & 07777) << std::dec << ' ' << about.owner << ' ' << about.group;
	auto found = std::make_unique<StatInfo>();
	found->ParseServerResponse(answer.str().c_str());
	return found;
}

}
