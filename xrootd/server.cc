#include "server.hh"

namespace rfio
{

/* XrdCl's port of a URL without one. */
static const int xrootd_port = 1094;

Server::Server(const XrdCl::URL &url, int port)
    : host_id(url.GetHostName() + ":" + std::to_string(url.GetPort())),
      front("rfio://" + url.GetHostName() + ":" + std::to_string(url.GetPort() == xrootd_port ? port : url.GetPort()))
{
}

std::string Server::name_of(const std::string &path) const
{
	const std::string plain = path_of(path);
	return front + (plain.compare(0, 1, "/") == 0 ? "" : "/") + plain;
}

std::string path_of(const std::string &text)
{
	return text.substr(0, text.find('?'));
}

std::string parameters_of(const std::string &text)
{
	const size_t mark = text.find('?');
	return mark == std::string::npos ? "" : text.substr(mark + 1);
}

}
