/* XrdCl's files. Each has a thread that executes its requests in order. */
#ifndef RFIO_XROOTD_FILE_HH
#define RFIO_XROOTD_FILE_HH

#include "worker.hh"

#include <XrdCl/XrdClPlugInInterface.hh>
#include <memory>
#include <string>

namespace rfio
{

class File : public XrdCl::FilePlugIn
{
public:
	/* `port` is the default port of URLs. */
	explicit File(int port);
	~File() override;

	XrdCl::XRootDStatus Open(const std::string &url, XrdCl::OpenFlags::Flags flags, XrdCl::Access::Mode mode,
	                         XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Close(XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Stat(bool force, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	using XrdCl::FilePlugIn::Read;
	XrdCl::XRootDStatus Read(uint64_t offset, uint32_t size, void *buffer, XrdCl::ResponseHandler *handler,
	                         uint16_t timeout) override;
	XrdCl::XRootDStatus PgRead(uint64_t offset, uint32_t size, void *buffer, XrdCl::ResponseHandler *handler,
	                           uint16_t timeout) override;
	XrdCl::XRootDStatus VectorRead(const XrdCl::ChunkList &chunks, void *buffer, XrdCl::ResponseHandler *handler,
	                               uint16_t timeout) override;
	using XrdCl::FilePlugIn::Write;
	XrdCl::XRootDStatus Write(uint64_t offset, uint32_t size, const void *buffer, XrdCl::ResponseHandler *handler,
	                          uint16_t timeout) override;
	XrdCl::XRootDStatus Write(uint64_t offset, XrdCl::Buffer &&buffer, XrdCl::ResponseHandler *handler,
	                          uint16_t timeout) override;
	XrdCl::XRootDStatus Sync(XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Truncate(uint64_t size, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	bool IsOpen() const override;
	bool GetProperty(const std::string &name, std::string &value) const override;

private:
	/* The state that requests share with the file; it may outlive the file. */
	struct State;
	/* Runs a request on the file if it is open. */
	XrdCl::XRootDStatus use(XrdCl::ResponseHandler *handler, std::function<Outcome(State &)> act);

	std::shared_ptr<State> state;
	Worker worker;
};

}

#endif
