#include "file_system.hh"

#include "attributes.hh"
#include "checksum.hh"
#include "descriptor.hh"
#include "directories.hh"

#include <XProtocol/XProtocol.hh>
#include <fcntl.h>
#include <rfio_api.h>
#include <sstream>

using namespace XrdCl;

namespace rfio
{

FileSystem::FileSystem(const std::string &url, int port) : server(URL(url), port)
{
}

XRootDStatus FileSystem::Locate(const std::string &path, OpenFlags::Flags, ResponseHandler *handler, uint16_t)
{
	/* A leading asterisk requests directories too, which the answer always includes. */
	const std::string plain = path.compare(0, 1, "*") == 0 ? path.substr(1) : path;
	return worker.ask(handler, [server = server, name = server.name_of(plain)]() -> Outcome {
		rfio_attributes about;
		if (rfio_examine(name.c_str(), &about) < 0)
			return failure(name);
		auto found = std::make_unique<LocationInfo>();
		found->Add(LocationInfo::Location(server.host(), LocationInfo::ServerOnline, LocationInfo::ReadWrite));
		return found;
	});
}

XRootDStatus FileSystem::DeepLocate(const std::string &path, OpenFlags::Flags flags, ResponseHandler *handler, uint16_t timeout)
{
	return Locate(path, flags, handler, timeout);
}

XRootDStatus FileSystem::Mv(const std::string &source, const std::string &dest, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [from = server.name_of(source), to = server.name_of(dest)]() -> Outcome {
		return status_of(rfio_rename(from.c_str(), to.c_str()), from);
	});
}

/* Returns a server's configuration: a line for each word; an unknown word is its own answer. */
static Outcome configuration(const std::string &words)
{
	std::istringstream asked(words);
	std::string word, answer;
	while (asked >> word)
		answer += (word == "chksum" ? checksum_kinds : word) + "\n";
	auto found = std::make_unique<Buffer>();
	found->FromString(answer);
	return found;
}

XRootDStatus FileSystem::Query(QueryCode::Code code, const Buffer &argument, ResponseHandler *handler, uint16_t)
{
	const std::string text = argument.ToString();
	return worker.ask(handler, [server = server, code, text]() -> Outcome {
		switch (code) {
		case QueryCode::Checksum:
			return checksum_of(server.name_of(text), parameters_of(text));
		case QueryCode::Config:
			return configuration(text);
		default:
			return refusal(kXR_Unsupported, "only queries for checksums and the configuration are supported");
		}
	});
}

XRootDStatus FileSystem::Truncate(const std::string &path, uint64_t size, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [name = server.name_of(path), size]() -> Outcome {
		const Descriptor file(rfio_open64(name.c_str(), O_WRONLY));
		if (file.number() < 0)
			return failure(name);
		return status_of(rfio_ftruncate64(file.number(), static_cast<__off64_t>(size)), name);
	});
}

XRootDStatus FileSystem::Rm(const std::string &path, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [name = server.name_of(path)]() -> Outcome {
		return status_of(rfio_unlink(name.c_str()), name);
	});
}

XRootDStatus FileSystem::MkDir(const std::string &path, MkDirFlags::Flags flags, Access::Mode mode, ResponseHandler *handler,
                               uint16_t)
{
	const mode_t bits = mode == Access::None ? 0755 : static_cast<mode_t>(mode);
	return worker.ask(handler, [server = server, path, flags, bits]() -> Outcome {
		if (flags & MkDirFlags::MakePath)
			return make_directories(server, path, bits);
		const std::string name = server.name_of(path);
		return status_of(rfio_mkdir(name.c_str(), static_cast<int>(bits)), name);
	});
}

XRootDStatus FileSystem::RmDir(const std::string &path, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [name = server.name_of(path)]() -> Outcome {
		return status_of(rfio_rmdir(name.c_str()), name);
	});
}

XRootDStatus FileSystem::ChMod(const std::string &path, Access::Mode mode, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [name = server.name_of(path), mode]() -> Outcome {
		return status_of(rfio_chmod(name.c_str(), static_cast<int>(mode)), name);
	});
}

XRootDStatus FileSystem::Stat(const std::string &path, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [name = server.name_of(path)]() -> Outcome {
		rfio_attributes about;
		if (rfio_examine(name.c_str(), &about) < 0)
			return failure(name);
		return stat_of(about);
	});
}

XRootDStatus FileSystem::DirList(const std::string &path, DirListFlags::Flags flags, ResponseHandler *handler, uint16_t)
{
	return worker.ask(handler, [server = server, path, flags] { return list(server, path, flags); });
}

}
