/* A thread that executes requests in order and notifies their handlers. */
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
	/* Pending requests are still executed. The destructor does not wait for them: its caller may be a handler that the
	 * worker is notifying, or hold a lock that a handler needs. So requests may only use data that they own. */
	~Worker();

	Worker(const Worker &) = delete;
	Worker &operator=(const Worker &) = delete;

	/* Queues a request; the worker's thread notifies its handler. */
	XrdCl::XRootDStatus ask(XrdCl::ResponseHandler *handler, std::function<Outcome()> request);

	/* Queues the last request. If a handler calls it, in the worker's own thread, it runs immediately, after all waiting
	 * requests: XrdCl closes a file that a handler drops, and waits for it. */
	XrdCl::XRootDStatus finish(XrdCl::ResponseHandler *handler, std::function<Outcome()> request);

	/* Queues a function that notifies handlers itself. */
	void ask(std::function<void()> request);

	/* Queues the last function. */
	void finish(std::function<void()> request);

private:
	struct Queue;
	std::shared_ptr<Queue> queue;
};

}

#endif
