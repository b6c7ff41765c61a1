/* File attributes in XrdCl's form. */
#ifndef RFIO_XROOTD_ATTRIBUTES_HH
#define RFIO_XROOTD_ATTRIBUTES_HH

#include <XrdCl/XrdClXRootDResponses.hh>
#include <memory>
#include <rfio_api.h>

namespace rfio
{

std::unique_ptr<XrdCl::StatInfo> stat_of(const rfio_attributes &about);

}

#endif
