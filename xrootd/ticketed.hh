/*
  * Files of a server of XRootD whose data are transferred by an RFIO server.
  *
  * XrdCl opens the file as usual: the server of XRootD checks tokens, redirects, creates files, and keeps the file open until
  * it is closed. A client with an open file gets a single-use ticket for its data, if the server issues any. If it does not, or
  * if rfiod rejects the ticket, XRootD transfers the data, too, and the log has the reason.
 */
#ifndef RFIO_XROOTD_TICKETED_HH
#define RFIO_XROOTD_TICKETED_HH

#include "worker.hh"

#include <XrdCl/XrdClPlugInInterface.hh>
#include <memory>
#include <string>

namespace rfio
{

class Ticketed : public XrdCl::FilePlugIn
{
public:
	Ticketed();
	~Ticketed() override;

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
	XrdCl::XRootDStatus PgWrite(uint64_t offset, uint32_t size, const void *buffer, std::vector<uint32_t> &checksums,
	                            XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Sync(XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Truncate(uint64_t size, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Fcntl(const XrdCl::Buffer &argument, XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	XrdCl::XRootDStatus Visa(XrdCl::ResponseHandler *handler, uint16_t timeout) override;
	bool IsOpen() const override;
	bool SetProperty(const std::string &name, const std::string &value) override;
	bool GetProperty(const std::string &name, std::string &value) const override;

private:
	/* The state that requests share with the file; it may outlive the file. */
	struct State;
	/* Reports an open after the ticket was redeemed. */
	class Opened;
	/* Runs a request on the data, with their descriptor and the file's name. */
	XrdCl::XRootDStatus use(XrdCl::ResponseHandler *handler, std::function<Outcome(int, const std::string &)> act);

	std::shared_ptr<State> state;
	std::shared_ptr<Worker> worker;
};

}

#endif
