/*
  * The plug-in of XRootD's server (ofs.ctllib) that issues tickets for the data of files.
  *
  * A client requests a ticket with the query "rfio.ticket" on an open file (kXR_Qopaqug). The ticket grants the access that
  * the server allowed when it opened the file: the path is that of the open file, and the access that of its descriptor.
  * The answer is "HOST:PORT TICKET"; HOST is empty for this host.
  *
  * Parameters, as NAME=VALUE: `secrets`, the file of rfiod's --tickets; `issuer`, the name of its line (default: xrootd);
  * `server`, the address of rfiod (default: :5001); `life`, the lifetime of a ticket in seconds (default: 60).
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
	/* Issues a ticket; returns false on failure, with the reason in the C library. */
	bool issue(const char *user, const char *path, int flags, char *ticket, size_t room) const
	{
		return rfio_issue_ticket(secrets.c_str(), issuer.c_str(), user, path, flags, life, ticket, room) == 0;
	}

	std::string secrets, issuer = "xrootd", server = ":5001";
	int life = 60;
};

/* Parses the parameters. Returns an error, or an empty string. */
static std::string read(const char *parameters, std::map<std::string, std::string> &values)
{
	std::istringstream words(parameters ? parameters : "");
	std::string word;
	while (words >> word) {
		const size_t equals = word.find('=');
		if (equals == std::string::npos || values.count(word.substr(0, equals)) == 0)
			return "'" + word + "' is not one of secrets=FILE, issuer=NAME, server=[HOST]:PORT, life=SECONDS";
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
		reason = "server=" + server + " has no port";
	/* Detects at the start an error that would affect every client. */
	if (reason.empty() && !issue("", "/", O_RDONLY, trial, sizeof trial))
		reason = rfio_reason();
	if (reason.empty())
		return true;
	eDest->Emsg("rfio", "tickets cannot be issued:", reason.c_str());
	return false;
}

/* Returns the user as mapped by the authorization of the request, else as in the token, else as logged in; empty if there is
 * none. A token alone is not a login: its owner may have logged in anonymously, like all others. */
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
		return refuse(answer, ENOTSUP, "the only query on an open file is " + question);
	}
	XrdOucErrInfo found;
	const int descriptor = file.fctl(SFS_FCTL_GETFD, nullptr, found) == SFS_OK ? found.getErrInfo() : -1;
	const int status = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFL);
	if (status < 0)
		return refuse(answer, ENOTSUP, "tickets are issued only for files on this host");
	const auto ticket = std::make_unique<char[]>(RFIO_MOST_TICKET);
	if (!issue(name_of(client).c_str(), file.FName(), status & O_ACCMODE, ticket.get(), RFIO_MOST_TICKET)) {
		const std::string reason = rfio_reason();
		eDest->Emsg("rfio", "no ticket for", file.FName(), reason.c_str());
		return refuse(answer, ENOTSUP, "no ticket was issued; see the server's log");
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
	return refuse(answer, ENOTSUP, "queries are supported only on open files");
}

}

rfio::Issuer XrdOfsFSctl;

XrdVERSIONINFO(XrdOfsFSctl, rfio)
