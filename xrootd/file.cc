#include "file.hh"

#include "attributes.hh"
#include "bytes.hh"
#include "directories.hh"
#include "server.hh"
#include "vector.hh"

#include <XProtocol/XProtocol.hh>
#include <atomic>
#include <fcntl.h>
#include <mutex>
#include <rfio_api.h>

using namespace XrdCl;

namespace rfio
{

struct File::State
{
	const int port;
	/* The file's descriptor, -1 while it is closed. Only the worker sets it. */
	std::atomic<int> descriptor{-1};
	/* Its URL, read by other threads. */
	mutable std::mutex lock;
	std::string url;

	explicit State(int port) : port(port) {}

	std::string named() const
	{
		const std::lock_guard<std::mutex> held(lock);
		return url;
	}

	Outcome open(const std::string &where, OpenFlags::Flags flags, Access::Mode mode);
	Outcome close();
};

File::File(int port) : state(std::make_shared<State>(port))
{
}

File::~File()
{
	worker.ask([state = state] {
		if (state->descriptor >= 0)
			state->close();
	});
}

/* Returns the C library's flags: without New and Delete no file is created, with them the file is writable. */
static int system_flags(OpenFlags::Flags flags)
{
	const bool writes = flags & (OpenFlags::Update | OpenFlags::New | OpenFlags::Delete);
	int wanted = writes ? O_RDWR : flags & OpenFlags::Write ? O_WRONLY : O_RDONLY;
	if (flags & OpenFlags::New)
		wanted |= O_CREAT | O_EXCL;
	else if (flags & OpenFlags::Delete)
		wanted |= O_CREAT | O_TRUNC;
	return wanted;
}

Outcome File::State::open(const std::string &where, OpenFlags::Flags flags, Access::Mode mode)
{
	if (descriptor >= 0)
		return XRootDStatus(stError, errInvalidOp, 0, "the file is open already");
	if (flags & OpenFlags::POSC)
		return refusal(kXR_Unsupported, "files that persist only when they are closed are not supported");
	const URL target(where);
	const Server server(target, port);
	const std::string name = server.name_of(target.GetPath());
	if ((flags & OpenFlags::MakePath) && (flags & (OpenFlags::New | OpenFlags::Delete))) {
		const XRootDStatus made = make_directories(server, parent_of(target.GetPath()), 0755);
		if (!made.IsOK())
			return made;
	}
	const int opened = rfio_open64(name.c_str(), system_flags(flags), mode == Access::None ? 0666 : static_cast<int>(mode));
	if (opened < 0)
		return failure(name);
	{
		const std::lock_guard<std::mutex> held(lock);
		url = where;
	}
	descriptor = opened;
	return done();
}

Outcome File::State::close()
{
	/* It is closed even after a failure, as by close(2). */
	const int last = descriptor.exchange(-1);
	return status_of(rfio_close(last), named());
}

/* The error of requests on a file that is not open. */
static XRootDStatus not_open()
{
	return XRootDStatus(stError, errInvalidOp, 0, "the file is not open");
}

XRootDStatus File::use(ResponseHandler *handler, std::function<Outcome(State &)> act)
{
	return worker.ask(handler, [state = state, act = std::move(act)]() -> Outcome {
		return state->descriptor < 0 ? not_open() : act(*state);
	});
}

XRootDStatus File::Open(const std::string &url, OpenFlags::Flags flags, Access::Mode mode, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [state = state, url, flags, mode] { return state->open(url, flags, mode); });
}

XRootDStatus File::Close(ResponseHandler *handler, uint16_t)
{
	return worker.finish(handler, [state = state]() -> Outcome {
		return state->descriptor < 0 ? not_open() : state->close();
	});
}

XRootDStatus File::Stat(bool, ResponseHandler *handler, uint16_t)
{
	return use(handler, [](State &file) -> Outcome {
		rfio_attributes about;
		if (rfio_fexamine(file.descriptor, &about) < 0)
			return failure(file.named());
		return stat_of(about);
	});
}

XRootDStatus File::Read(uint64_t offset, uint32_t size, void *buffer, ResponseHandler *handler, uint16_t)
{
	return use(handler, [=](State &file) { return read_bytes(file.descriptor, file.named(), offset, size, buffer); });
}

XRootDStatus File::PgRead(uint64_t offset, uint32_t size, void *buffer, ResponseHandler *handler, uint16_t)
{
	return use(handler, [=](State &file) { return read_pages(file.descriptor, file.named(), offset, size, buffer); });
}

XRootDStatus File::VectorRead(const ChunkList &chunks, void *buffer, ResponseHandler *handler, uint16_t)
{
	return use(handler, [=](State &file) { return read_vector(file.descriptor, file.named(), chunks, buffer); });
}

XRootDStatus File::Write(uint64_t offset, uint32_t size, const void *buffer, ResponseHandler *handler, uint16_t)
{
	return use(handler, [=](State &file) { return write_bytes(file.descriptor, file.named(), offset, size, buffer); });
}

XRootDStatus File::Write(uint64_t offset, Buffer &&buffer, ResponseHandler *handler, uint16_t)
{
	const auto own = std::make_shared<Buffer>(std::move(buffer));
	return use(handler, [=](State &file) {
		return write_bytes(file.descriptor, file.named(), offset, own->GetSize(), own->GetBuffer());
	});
}

XRootDStatus File::Sync(ResponseHandler *handler, uint16_t)
{
	return use(handler, [](State &file) { return synchronise(file.descriptor, file.named()); });
}

XRootDStatus File::Truncate(uint64_t size, ResponseHandler *handler, uint16_t)
{
	return use(handler, [=](State &file) { return truncate(file.descriptor, file.named(), size); });
}

bool File::IsOpen() const
{
	return state->descriptor >= 0;
}

bool File::GetProperty(const std::string &name, std::string &value) const
{
	if (name != "LastURL")
		return false;
	value = state->named();
	return true;
}

}
