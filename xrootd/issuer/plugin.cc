/*
 * The plug-in of XRootD's server (ofs.ctllib) that gives tickets for the bytes of files.
 *
 * A client that has a file open asks for one with the query "rfio.ticket" on it (kXR_Qopaqug). What the server allowed when it
 * opened the file is all that the ticket is good for: the path is the open file's, and the access that of its descriptor.
 * The answer is "HOST:PORT TICKET"; the host is empty if it is this one.
 *
 * Parameters, as NAME=VALUE: `secrets`, the file that is rfiod's --tickets; `issuer`, whose line of it (default: xrootd);
 * `server`, where rfiod is (default: :5001); `life`, the seconds that a ticket is good for (default: 60).
 */
#include <XrdOfs/XrdOfsFSctl_PI.hh>
#include <XrdOuc/XrdOucBuffer.hh>
#include <XrdOuc/XrdOucErrInfo.hh>
#include <XrdSec/XrdSecEntity.hh>
#include <XrdSec/XrdSecEntityAttr.hh>
#include <XrdSfs/XrdSfsInterface.hh>
#include <XrdSys/XrdSysError.hh>
#include <XrdVersion.hh>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <rfio_api.h>
#include <sstream>
#include <string>

namespace rfio
{

static const std::string question = "rfio.ticket";

class Issuer : public XrdOfsFSctl_PI
{
public:
	bool Configure(const char *file, const char *parameters, XrdOucEnv *environment, const Plugins &plugins) override;
	int FSctl(int command, int length, const char *arguments, XrdSfsFile &file, XrdOucErrInfo &answer,
	          const XrdSecEntity *client) override;
	int FSctl(int command, XrdSfsFSctl &arguments, XrdOucErrInfo &answer, const XrdSecEntity *client) override;

private:
	/* A ticket, or nothing, and then the C library has the reason. */
	bool issue(const char *user, const char *path, int flags, char *ticket, size_t room) const
	{
		return rfio_issue_ticket(secrets.c_str(), issuer.c_str(), user, path, flags, life, ticket, room) == 0;
	}

	std::string secrets, issuer = "xrootd", server = ":5001";
	int life = 60;
};

/* What is wrong with the parameters, or nothing. */
static std::string read(const char *parameters, std::map<std::string, std::string> &values)
{
	std::istringstream words(parameters ? parameters : "");
	std::string word;
	while (words >> word) {
		const size_t equals = word.find('=');
		if (equals == std::string::npos || values.count(word.substr(0, equals)) == 0)
			return "'" + word + "' is none of secrets=FILE, issuer=NAME, server=[HOST]:PORT, life=SECONDS";
		values[word.substr(0, equals)] = word.substr(equals + 1);
	}
	return "";
}

bool Issuer::Configure(const char *, const char *parameters, XrdOucEnv *, const Plugins &)
{
	std::map<std::string, std::string> values{
	    {"secrets", ""}, {"issuer", issuer}, {"server", server}, {"life", std::to_string(life)}};
	const std::string wrong = read(parameters, values);
	secrets = values["secrets"];
	issuer = values["issuer"];
	server = values["server"];
	life = atoi(values["life"].c_str());
	char trial[RFIO_MOST_TICKET];
	std::string reason = wrong;
	if (reason.empty() && server.find(':') == std::string::npos)
		reason = "server=" + server + " names no port";
	/* What would fail for every client fails now. */
	if (reason.empty() && !issue("", "/", O_RDONLY, trial, sizeof trial))
		reason = rfio_reason();
	if (reason.empty())
		return true;
	eDest->Emsg("rfio", "tickets cannot be issued:", reason.c_str());
	return false;
}

/* The user, as whoever authorized the request mapped it, as the token says, or as it logged in; empty if none says. A token alone
 * is no login: whoever has one may have logged in as nobody in particular, like all others. */
static std::string name_of(const XrdSecEntity *client)
{
	std::string name;
	if (client == nullptr)
		return name;
	for (const char *said : {"request.name", "token.subject"}) {
		if (client->eaAPI && client->eaAPI->Get(said, name) && !name.empty())
			return name;
	}
	name = client->name ? client->name : "";
	const bool is_nobody = name == "anon" || name == "?" || name == "nobody";
	return is_nobody ? "" : name;
}

static int refuse(XrdOucErrInfo &answer, int code, const std::string &reason)
{
	answer.setErrInfo(code, reason.c_str());
	return SFS_ERROR;
}

int Issuer::FSctl(int command, int length, const char *arguments, XrdSfsFile &file, XrdOucErrInfo &answer,
                  const XrdSecEntity *client)
{
	const std::string asked(arguments ? arguments : "", arguments && length > 0 ? strnlen(arguments, length) : 0);
	if (command != SFS_FCTL_SPEC1 || asked != question) {
		if (prvPI)
			return prvPI->FSctl(command, length, arguments, file, answer, client);
		return refuse(answer, ENOTSUP, "of an open file, only " + question + " can be asked for");
	}
	XrdOucErrInfo found;
	const int descriptor = file.fctl(SFS_FCTL_GETFD, nullptr, found) == SFS_OK ? found.getErrInfo() : -1;
	const int status = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFL);
	if (status < 0)
		return refuse(answer, ENOTSUP, "there is no ticket for what is not a file on this host");
	const auto ticket = std::make_unique<char[]>(RFIO_MOST_TICKET);
	if (!issue(name_of(client).c_str(), file.FName(), status & O_ACCMODE, ticket.get(), RFIO_MOST_TICKET)) {
		const std::string reason = rfio_reason();
		eDest->Emsg("rfio", "no ticket for", file.FName(), reason.c_str());
		return refuse(answer, ENOTSUP, "no ticket can be issued; the server's log says why");
	}
	const std::string text = server + " " + ticket.get();
	char *const bytes = static_cast<char *>(malloc(text.size()));
	if (bytes == nullptr)
		return refuse(answer, ENOMEM, "no memory for a ticket");
	memcpy(bytes, text.data(), text.size());
	const int size = static_cast<int>(text.size());
	answer.setErrInfo(size, new XrdOucBuffer(bytes, size));
	return SFS_DATA;
}

int Issuer::FSctl(int command, XrdSfsFSctl &arguments, XrdOucErrInfo &answer, const XrdSecEntity *client)
{
	if (prvPI)
		return prvPI->FSctl(command, arguments, answer, client);
	return refuse(answer, ENOTSUP, "only of an open file can anything be asked for");
}

}

rfio::Issuer XrdOfsFSctl;

XrdVERSIONINFO(XrdOfsFSctl, rfio)
