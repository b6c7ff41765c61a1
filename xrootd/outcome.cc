#include "outcome.hh"

#include <XProtocol/XProtocol.hh>
#include <cerrno>
#include <rfio_api.h>

using namespace XrdCl;

namespace rfio
{

void Outcome::tell(ResponseHandler *handler) &&
{
	/* The close of a file that was dropped while open has no handler. */
	if (handler == nullptr)
		return;
	/* Every handler implements this call: by default it calls the variant without hosts. */
	handler->HandleResponseWithHosts(new XRootDStatus(status), response.release(), new HostList);
}

XRootDStatus done()
{
	return XRootDStatus(stOK, suDone);
}

XRootDStatus refusal(int code, const std::string &reason)
{
	return XRootDStatus(stError, errErrorResponse, static_cast<uint32_t>(code), reason);
}

/* XrdCl's number of an RFIO error. */
static uint16_t code_of(int number)
{
	switch (number) {
	case SENOSHOST:
		return errInvalidAddr;
	case SETIMEDOUT:
		return errOperationExpired;
	case SECONNDROP:
	case SECOMERR:
		return errConnectionError;
	case SEBADVERSION:
		return errHandShakeFailed;
	case SEOPNOTSUP:
		return errNotSupported;
	case SECHECKSUM:
		return errDataError;
	default:
		return errInternal;
	}
}

XRootDStatus failure(const std::string &about)
{
	/* Before any other call that may fail. */
	const int remote = rfio_errno, number = rfio_serrno();
	const std::string reason = about + ": " + rfio_serror();

	if (remote != 0)
		return refusal(XProtocol::mapError(remote), reason);
	if (number >= SEBASEOFF)
		return XRootDStatus(stError, code_of(number), 0, reason);
	if (number == ECONNREFUSED || number == EHOSTUNREACH || number == ENETUNREACH)
		return XRootDStatus(stError, errConnectionError, static_cast<uint32_t>(number), reason);
	return XRootDStatus(stError, errOSError, static_cast<uint32_t>(number), reason);
}

XRootDStatus status_of(int result, const std::string &about)
{
	return result < 0 ? failure(about) : done();
}

}
