/*
 * Files of a server of XRootD whose bytes a server of RFIO moves.
 *
 * XrdCl opens the file as ever: the server of XRootD judges tokens, redirects, makes new files, and has the file open until it
 * is closed. Whoever has it open is given a ticket for its bytes, good once, if the server gives any. If it does not, or the
 * ticket is not taken, XRootD moves the bytes too, and the log says why.
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
	/* What requests share with the file, and may outlive it with. */
	struct State;
	/* Tells of an open once the ticket is redeemed. */
	class Opened;
	/* Has something done with the bytes, by their descriptor and the file's name. */
	XrdCl::XRootDStatus use(XrdCl::ResponseHandler *handler, std::function<Outcome(int, const std::string &)> act);

	std::shared_ptr<State> state;
	std::shared_ptr<Worker> worker;
};

}

#endif
