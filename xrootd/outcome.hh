/* What came of a request, and how a handler is told. */
#ifndef RFIO_XROOTD_OUTCOME_HH
#define RFIO_XROOTD_OUTCOME_HH

#include <XrdCl/XrdClXRootDResponses.hh>
#include <memory>
#include <string>

namespace rfio
{

/* A status, and the object that XrdCl documents for the request, if it has one. */
class Outcome
{
public:
	Outcome(const XrdCl::XRootDStatus &status) : status(status) {}

	template <class Response>
	Outcome(std::unique_ptr<Response> &&object) : response(std::make_unique<XrdCl::AnyObject>())
	{
		response->Set(object.release());
	}

	/* The handler, if there is one, owns what it is given, and may delete itself and the file that it belongs to. */
	void tell(XrdCl::ResponseHandler *handler) &&;

private:
	XrdCl::XRootDStatus status;
	std::unique_ptr<XrdCl::AnyObject> response;
};

/* Everything went well, and there is nothing more to say. */
XrdCl::XRootDStatus done();

/* The last error of the C library in this thread. */
XrdCl::XRootDStatus failure(const std::string &about);

/* A refusal as a server of XRootD gives it; `code` is one of kXR_... */
XrdCl::XRootDStatus refusal(int code, const std::string &reason);

/* What a call of the C library that returns -1 for an error came to. */
XrdCl::XRootDStatus status_of(int result, const std::string &about);

}

#endif
