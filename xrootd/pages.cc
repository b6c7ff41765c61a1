#include "pages.hh"

#include <XrdOuc/XrdOucCRC.hh>
#include <XrdSys/XrdSysPageSize.hh>
#include <algorithm>
#include <vector>

using namespace XrdCl;

namespace rfio
{

std::unique_ptr<PageInfo> pages(uint64_t offset, uint32_t length, void *data)
{
	const uint32_t page = XrdSys::PageSize;
	std::vector<uint32_t> sums;
	for (uint32_t at = 0, size; at < length; at += size) {
		size = std::min(length - at, page - static_cast<uint32_t>((offset + at) % page));
		sums.push_back(XrdOucCRC::Calc32C(static_cast<char *>(data) + at, size));
	}
	return std::make_unique<PageInfo>(offset, length, data, std::move(sums));
}

}
