/* RFIO's names of what XrdCl names by URLs. */
#ifndef RFIO_XROOTD_SERVER_HH
#define RFIO_XROOTD_SERVER_HH

#include <XrdCl/XrdClURL.hh>
#include <string>

namespace rfio
{

class Server
{
public:
	/* The server of a URL. XrdCl gives a URL without a port XRootD's, which stands for `port` here. */
	Server(const XrdCl::URL &url, int port);

	/* RFIO's name of a path there; what follows a question mark is for XRootD's servers. */
	std::string name_of(const std::string &path) const;

	/* Host and port as the URL has them. */
	const std::string &host() const { return host_id; }

private:
	std::string host_id;
	std::string front;
};

/* A path without what follows the question mark, and that. */
std::string path_of(const std::string &text);
std::string parameters_of(const std::string &text);

}

#endif
