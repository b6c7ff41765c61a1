/* The result of a request, and its delivery to a handler. */
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

	/* Passes the result to the handler, if there is one. The handler owns it, and may delete itself and its file. */
	void tell(XrdCl::ResponseHandler *handler) &&;

private:
	XrdCl::XRootDStatus status;
	std::unique_ptr<XrdCl::AnyObject> response;
};

/* Success without a response. */
XrdCl::XRootDStatus done();

/* The last error of the C library in this thread. */
XrdCl::XRootDStatus failure(const std::string &about);

/* An error as from a server of XRootD; `code` is one of kXR_... */
XrdCl::XRootDStatus refusal(int code, const std::string &reason);

/* The status of a C library call that returns -1 for an error. */
XrdCl::XRootDStatus status_of(int result, const std::string &about);

}

#endif
