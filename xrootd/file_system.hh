/* XrdCl's view of a server: names, attributes and checksums. */
#ifndef RFIO_XROOTD_FILE_SYSTEM_HH
#define RFIO_XROOTD_FILE_SYSTEM_HH

#include "server.hh"
#include "worker.hh"

#include <XrdCl/XrdClPlugInInterface.hh>
#include <string>

namespace rfio
{

class FileSystem : public XrdCl::FileSystemPlugIn
{
public:
	/* `port` is the default port of URLs. */
	FileSystem(const std::string &url, int port);

	XrdCl::XRootDStatus Locate(const std::string &path, XrdCl::OpenFlags::Flags flags, XrdCl::ResponseHandler *handler,
	                           uint16_t timeout) override;
	XrdCl::XRootDStatus DeepLocate(const std::string &path, XrdCl::OpenFlags::Flags flags,
	                               XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Mv(const std::string &source, const std::string &dest, XrdCl::ResponseHandler *handler,
	                       uint16_t timeout) override;
	XrdCl::XRootDStatus Query(XrdCl::QueryCode::Code code, const XrdCl::Buffer &argument, XrdCl::ResponseHandler *handler,
	                          uint16_t timeout) override;
	XrdCl::XRootDStatus Truncate(const std::string &path, uint64_t size, XrdCl::ResponseHandler *handler,
	                             uint16_t timeout) override;
	XrdCl::XRootDStatus Rm(const std::string &path, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus MkDir(const std::string &path, XrdCl::MkDirFlags::Flags flags, XrdCl::Access::Mode mode,
	                          XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus RmDir(const std::string &path, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus ChMod(const std::string &path, XrdCl::Access::Mode mode, XrdCl::ResponseHandler *handler,
	                          uint16_t timeout) override;
	XrdCl::XRootDStatus Stat(const std::string &path, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus DirList(const std::string &path, XrdCl::DirListFlags::Flags flags,
	                            XrdCl::ResponseHandler *handler, uint16_t timeout) override;

private:
	const Server server;
	Worker worker;
};

}

#endif
