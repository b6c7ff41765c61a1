#include "ticketed.hh"

#include "bytes.hh"
#include "vector.hh"

#include <XrdCl/XrdClConstants.hh>
#include <XrdCl/XrdClDefaultEnv.hh>
#include <XrdCl/XrdClFile.hh>
#include <XrdCl/XrdClLog.hh>
#include <atomic>
#include <rfio_api.h>

using namespace XrdCl;

namespace rfio
{

/* The query for a ticket (issuer/plugin.cc). The server answers "HOST:PORT TICKET", or ":PORT TICKET" for its own
 * host. */
static const char question[] = "rfio.ticket";

struct Ticketed::State
{
	/* XRootD's file, without a plug-in. */
	XrdCl::File file{false};
	/* RFIO's descriptor of the same file, or -1 while XRootD transfers the data. Only the worker sets it. */
	std::atomic<int> descriptor{-1};
	std::string url;
	bool needs_bytes = true;

	bool is_by_ticket() const { return descriptor >= 0; }

	/* Transfers the data by RFIO if the server issues a ticket that rfiod accepts. */
	void redeem();
};

/* For a third-party copy, the client opens both files and transfers no data itself; a server's own reader, which has a key
 * from XRootD, does. */
static bool is_rendezvous(const std::string &url)
{
	const URL::ParamsMap &parameters = URL(url).GetParams();
	return parameters.count("tpc.src") || parameters.count("tpc.dst") || parameters.count("tpc.stage");
}

/* The name of a file's host. */
static std::string host_of(const XrdCl::File &file)
{
	std::string server;
	return file.GetProperty("DataServer", server) ? URL(server).GetHostName() : "";
}

void Ticketed::State::redeem()
{
	Log *const log = DefaultEnv::GetLog();
	Buffer asked, *answer = nullptr;
	asked.FromString(question);
	const XRootDStatus told = file.Fcntl(asked, answer);
	const std::unique_ptr<Buffer> owner(answer);
	if (!told.IsOK() || answer == nullptr) {
		log->Info(FileMsg, "RFIO plug-in: the server of %s gives no ticket: %s", url.c_str(), told.ToString().c_str());
		return;
	}
	const std::string text(answer->GetBuffer(), answer->GetSize());
	const size_t space = text.find(' ');
	if (space == std::string::npos) {
		log->Warning(FileMsg, "RFIO plug-in: the server of %s gives an invalid ticket", url.c_str());
		return;
	}
	std::string server = text.substr(0, space);
	if (server.compare(0, 1, ":") == 0)
		server = host_of(file) + server;
	const int opened = rfio_redeem_ticket(("rfio://" + server).c_str(), text.substr(space + 1).c_str());
	if (opened < 0) {
		log->Warning(FileMsg, "RFIO plug-in: XRootD moves the bytes of %s; rfio://%s: %s", url.c_str(), server.c_str(),
		             rfio_reason());
		return;
	}
	log->Info(FileMsg, "RFIO plug-in: rfio://%s moves the bytes of %s", server.c_str(), url.c_str());
	descriptor = opened;
}

class Ticketed::Opened : public ResponseHandler
{
public:
	Opened(std::shared_ptr<State> state, std::shared_ptr<Worker> worker, ResponseHandler *handler)
	    : state(std::move(state)), worker(std::move(worker)), handler(handler)
	{
	}

	void HandleResponseWithHosts(XRootDStatus *status, AnyObject *response, HostList *hosts) override
	{
		/* Destroy no part of this file in a thread of XrdCl's, for which the destructor would wait. */
		const std::unique_ptr<Opened> self(this);
		const std::shared_ptr<Worker> by = std::move(worker);
		by->ask([state = std::move(state), by, handler = handler, status, response, hosts] {
			if (status->IsOK() && state->needs_bytes)
				state->redeem();
			handler->HandleResponseWithHosts(status, response, hosts);
		});
	}

private:
	std::shared_ptr<State> state;
	std::shared_ptr<Worker> worker;
	ResponseHandler *handler;
};

Ticketed::Ticketed() : state(std::make_shared<State>()), worker(std::make_shared<Worker>())
{
}

Ticketed::~Ticketed()
{
	worker->ask([state = std::move(state)] {
		if (state->is_by_ticket())
			rfio_close(state->descriptor.exchange(-1));
	});
}

XRootDStatus Ticketed::Open(const std::string &url, OpenFlags::Flags flags, Access::Mode mode, ResponseHandler *handler,
                            uint16_t timeout)
{
	state->url = url;
	state->needs_bytes = !is_rendezvous(url);
	auto opened = std::make_unique<Opened>(state, worker, handler);
	const XRootDStatus status = state->file.Open(url, flags, mode, opened.get(), timeout);
	/* A failed start has no notification. */
	if (status.IsOK())
		opened.release();
	return status;
}

XRootDStatus Ticketed::Close(ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.Close(handler, timeout);
	worker->finish([state = state, handler, timeout] {
		const int last = state->descriptor.exchange(-1);
		XRootDStatus status = last < 0 ? done() : status_of(rfio_close(last), state->url);
		if (status.IsOK()) {
			status = state->file.Close(handler, timeout);
			if (status.IsOK())
				return;
		} else {
			/* Written data may be lost: report that, regardless of the result of XRootD's close. */
			const XRootDStatus other = state->file.Close(timeout);
			if (!other.IsOK())
				DefaultEnv::GetLog()->Info(FileMsg, "RFIO plug-in: %s", other.ToString().c_str());
		}
		Outcome(status).tell(handler);
	});
	return done();
}

XRootDStatus Ticketed::use(ResponseHandler *handler, std::function<Outcome(int, const std::string &)> act)
{
	return worker->ask(handler, [state = state, act = std::move(act)]() -> Outcome {
		const int descriptor = state->descriptor;
		if (descriptor < 0)
			return XRootDStatus(stError, errInvalidOp, 0, "the file is not open");
		return act(descriptor, state->url);
	});
}

XRootDStatus Ticketed::Stat(bool force, ResponseHandler *handler, uint16_t timeout)
{
	/* XrdCl caches the attributes from before RFIO's writes. */
	return state->file.Stat(force || state->is_by_ticket(), handler, timeout);
}

XRootDStatus Ticketed::Read(uint64_t offset, uint32_t size, void *buffer, ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.Read(offset, size, buffer, handler, timeout);
	return use(handler, [=](int file, const std::string &about) { return read_bytes(file, about, offset, size, buffer); });
}

XRootDStatus Ticketed::PgRead(uint64_t offset, uint32_t size, void *buffer, ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.PgRead(offset, size, buffer, handler, timeout);
	return use(handler, [=](int file, const std::string &about) { return read_pages(file, about, offset, size, buffer); });
}

XRootDStatus Ticketed::VectorRead(const ChunkList &chunks, void *buffer, ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.VectorRead(chunks, buffer, handler, timeout);
	return use(handler, [=](int file, const std::string &about) { return read_announced(file, about, chunks, buffer); });
}

XRootDStatus Ticketed::Write(uint64_t offset, uint32_t size, const void *buffer, ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.Write(offset, size, buffer, handler, timeout);
	return use(handler, [=](int file, const std::string &about) { return write_bytes(file, about, offset, size, buffer); });
}

XRootDStatus Ticketed::Write(uint64_t offset, Buffer &&buffer, ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.Write(offset, std::move(buffer), handler, timeout);
	const auto own = std::make_shared<Buffer>(std::move(buffer));
	return use(handler, [=](int file, const std::string &about) {
		return write_bytes(file, about, offset, own->GetSize(), own->GetBuffer());
	});
}

XRootDStatus Ticketed::PgWrite(uint64_t offset, uint32_t size, const void *buffer, std::vector<uint32_t> &checksums,
                               ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.PgWrite(offset, size, buffer, checksums, handler, timeout);
	/* RFIO's blocks have their own checksums between here and the server. */
	return Write(offset, size, buffer, handler, timeout);
}

XRootDStatus Ticketed::Sync(ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.Sync(handler, timeout);
	return use(handler, [](int file, const std::string &about) { return synchronise(file, about); });
}

XRootDStatus Ticketed::Truncate(uint64_t size, ResponseHandler *handler, uint16_t timeout)
{
	if (!state->is_by_ticket())
		return state->file.Truncate(size, handler, timeout);
	return use(handler, [=](int file, const std::string &about) { return truncate(file, about, size); });
}

XRootDStatus Ticketed::Fcntl(const Buffer &argument, ResponseHandler *handler, uint16_t timeout)
{
	return state->file.Fcntl(argument, handler, timeout);
}

XRootDStatus Ticketed::Visa(ResponseHandler *handler, uint16_t timeout)
{
	return state->file.Visa(handler, timeout);
}

bool Ticketed::IsOpen() const
{
	return state->file.IsOpen();
}

bool Ticketed::SetProperty(const std::string &name, const std::string &value)
{
	return state->file.SetProperty(name, value);
}

bool Ticketed::GetProperty(const std::string &name, std::string &value) const
{
	return state->file.GetProperty(name, value);
}

}
