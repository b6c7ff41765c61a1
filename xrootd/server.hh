/* Converts XrdCl's URLs to RFIO's names. */
#ifndef RFIO_XROOTD_SERVER_HH
#define RFIO_XROOTD_SERVER_HH

#include <XrdCl/XrdClURL.hh>
#include <string>

namespace rfio
{

class Server
{
public:
	/* The server of a URL. XrdCl assigns XRootD's port to a URL without one; `port` replaces it. */
	Server(const XrdCl::URL &url, int port);

	/* Returns RFIO's name of a path on this server; the part after a question mark is for XRootD's servers. */
	std::string name_of(const std::string &path) const;

	/* Host and port as in the URL. */
	const std::string &host() const { return host_id; }

private:
	std::string host_id;
	std::string front;
};

/* The parts of a path before and after the question mark. */
std::string path_of(const std::string &text);
std::string parameters_of(const std::string &text);

}

#endif
