/*
  * The plug-in as loaded by XrdCl: `url`, `lib` and `enable` of its configuration are XrdCl's. RFIO's are `port`, the default
  * port of URLs, and `behind`: with "xrootd" the server of the URL is a server of XRootD, which issues tickets for the data
  * of files.
 */
#include "file.hh"
#include "file_system.hh"
#include "ticketed.hh"

#include <XrdCl/XrdClDefaultEnv.hh>
#include <XrdCl/XrdClLog.hh>
#include <XrdVersion.hh>
#include <cstdlib>
#include <map>

using namespace XrdCl;

XrdVERSIONINFO(XrdClGetPlugIn, XrdClGetPlugIn)

namespace rfio
{

using Configuration = std::map<std::string, std::string>;

/* RFIO's default port. */
static const int usual_port = 5001;

class Factory : public PlugInFactory
{
public:
	Factory(bool serves_all, int port) : serves_all(serves_all), port(port) {}

	/* Without a plug-in XrdCl handles the file itself. */
	FilePlugIn *CreateFile(const std::string &url) override
	{
		return serves(url) ? new File(port) : nullptr;
	}

	FileSystemPlugIn *CreateFileSystem(const std::string &url) override
	{
		return serves(url) ? new FileSystem(url, port) : nullptr;
	}

private:
	bool serves(const std::string &url) const
	{
		return serves_all || URL(url).GetProtocol() == "rfio";
	}

	/* Whether all URLs are on RFIO servers: the configuration lists their names. */
	const bool serves_all;
	const int port;
};

/* For a server of XRootD: everything except the data of files stays with XrdCl. */
class Behind : public PlugInFactory
{
public:
	FilePlugIn *CreateFile(const std::string &) override
	{
		return new Ticketed;
	}

	FileSystemPlugIn *CreateFileSystem(const std::string &) override
	{
		return nullptr;
	}
};

/* The configured port, or 0 if it is invalid. */
static int port_of(const Configuration &configuration)
{
	const auto found = configuration.find("port");
	if (found == configuration.end())
		return usual_port;
	char *end = nullptr;
	const long port = strtol(found->second.c_str(), &end, 10);
	return found->second.empty() || *end != '\0' || port < 1 || port > 65535 ? 0 : static_cast<int>(port);
}

static PlugInFactory *factory(const Configuration &configuration)
{
	const auto behind = configuration.find("behind");
	if (behind != configuration.end() && behind->second == "xrootd")
		return new Behind;
	if (behind != configuration.end()) {
		DefaultEnv::GetLog()->Error(1, "RFIO plug-in: 'behind' must be 'xrootd', not '%s'", behind->second.c_str());
		return nullptr;
	}
	const int port = port_of(configuration);
	if (port == 0) {
		DefaultEnv::GetLog()->Error(1, "RFIO plug-in: port '%s' is no number from 1 to 65535",
		                            configuration.at("port").c_str());
		return nullptr;
	}
	const auto url = configuration.find("url");
	return new Factory(url != configuration.end() && url->second != "*", port);
}

}

extern "C" void *XrdClGetPlugIn(const void *configuration)
{
	static const rfio::Configuration none;
	return rfio::factory(configuration ? *static_cast<const rfio::Configuration *>(configuration) : none);
}
