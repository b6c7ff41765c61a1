/* A thread that carries out requests one after the other and tells their handlers. */
#ifndef RFIO_XROOTD_WORKER_HH
#define RFIO_XROOTD_WORKER_HH

#include "outcome.hh"

#include <functional>
#include <memory>

namespace rfio
{

class Worker
{
public:
	Worker();
	/* What was asked for is still carried out. Nobody waits for it: the one who ends a worker may be a handler that the
	 * worker is just telling, or hold a lock that a handler needs. So requests may only use what they own. */
	~Worker();

	Worker(const Worker &) = delete;
	Worker &operator=(const Worker &) = delete;

	/* Has a request carried out, and its handler told from the worker's thread. */
	XrdCl::XRootDStatus ask(XrdCl::ResponseHandler *handler, std::function<Outcome()> request);

	/* The same for a request that is the last. From a handler, in the worker's own thread, it is carried out at once, and
	 * before it what still waits: XrdCl closes a file that a handler lets go, and waits for it. */
	XrdCl::XRootDStatus finish(XrdCl::ResponseHandler *handler, std::function<Outcome()> request);

	/* Has something carried out that tells whom it likes. */
	void ask(std::function<void()> request);

	/* The same for what is the last. */
	void finish(std::function<void()> request);

private:
	struct Queue;
	std::shared_ptr<Queue> queue;
};

}

#endif
