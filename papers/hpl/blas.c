/* The BLAS routines that HPL calls, for recording it at sizes that this machine cannot compute. Every routine declares its expected time to the
 * recorder; its real time is not counted. All are computed except multiplications and triangular solutions of at least TOLD_INNER columns: these
 * are the updates of the rest of the matrix, nearly all of the work. The factorisation of a panel is computed, so pivots are searched and rows
 * exchanged as in any HPL; README.md describes the matrix contents.
 *
 * The declared time follows the roofline model: the longer of its operations at a rate of TOLD_FLOPS, and of its operands, each moved once, at a
 * rate of TOLD_BYTES. With TOLD_PACE, one of TOLD_PACE declared nanoseconds is slept, so that ranks meet at realistic times: HPL probes for a panel
 * between parts of an update. With TOLD_REPORT each process prints its declared time. */

#define _GNU_SOURCE
#include "../../crates/mpi-trace/recorder/verbena.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Values of the CBLAS interface. */
enum { ROW_MAJOR = 101, COLUMN_MAJOR, NO_TRANSPOSE = 111, TRANSPOSE, UPPER = 121, LOWER, NON_UNIT = 131, UNIT, LEFT = 141, RIGHT };

enum { WORD = sizeof(double) };
/* Minimum sleep in nanoseconds; shorter ones are combined. */
static const double SLEEP = 1e6;

static double flops, bytes, pace, inner;
static double owed, all_told;
/* Pivots found in columns of more than FEW rows: their number, the largest and the smallest, and their mean relative position. */
static const int FEW = 1000;
static double pivots, places, most_of_all, least_of_all = INFINITY;

static double setting(const char *name, double otherwise)
{
	const char *text = getenv(name);
	double value = text == NULL ? otherwise : atof(text);
	if (value > 0)
		return value;
	fprintf(stderr, "blas: %s must be a number above 0\n", name);
	exit(2);
}

__attribute__((constructor)) static void begin(void)
{
	flops = setting("TOLD_FLOPS", 1e9);
	bytes = setting("TOLD_BYTES", 1e9);
	inner = setting("TOLD_INNER", 128);
	pace = setting("TOLD_PACE", INFINITY);
}

__attribute__((destructor)) static void end(void)
{
	if (getenv("TOLD_REPORT") != NULL)
		fprintf(stderr, "blas: told %.0f ns; %.0f pivots from %g to %g, at %.3f of their columns\n", all_told, pivots, least_of_all,
			most_of_all, places / pivots);
}

static double nanoseconds(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void sleep_for(double told)
{
	owed += told / pace;
	if (owed < SLEEP)
		return;
	double start = nanoseconds();
	struct timespec time = { (time_t)(owed / 1e9), (long)fmod(owed, 1e9) };
	nanosleep(&time, NULL);
	/* Compensate for oversleeping. */
	owed -= nanoseconds() - start;
}

static void start(void)
{
	if (verbena_pause)
		verbena_pause();
}

/* Ends the section begun by `start`: `operations`, on `words` numbers read or written. */
static void told(double operations, double words)
{
	double seconds = fmax(operations / flops, words * WORD / bytes);
	all_told += seconds * 1e9;
	sleep_for(seconds * 1e9);
	if (verbena_resume)
		verbena_resume();
	if (verbena_computed)
		verbena_computed((uint64_t)llround(seconds * 1e9));
}

static void refuse(bool wrong, const char *routine)
{
	if (!wrong)
		return;
	fprintf(stderr, "blas: %s is called as HPL does not call it\n", routine);
	abort();
}

/* The first element of a vector with a negative step is its last in memory. */
#define FIRST(x, n, step) ((step) < 0 ? (x) - (long)((n) - 1) * (step) : (x))

void cblas_dcopy(int n, const double *x, int dx, double *y, int dy)
{
	start();
	x = FIRST(x, n, dx), y = FIRST(y, n, dy);
	for (int i = 0; i < n; i++)
		y[(long)i * dy] = x[(long)i * dx];
	told(0, 2.0 * n);
}

void cblas_dswap(int n, double *x, int dx, double *y, int dy)
{
	start();
	x = FIRST(x, n, dx), y = FIRST(y, n, dy);
	for (int i = 0; i < n; i++) {
		double kept = y[(long)i * dy];
		y[(long)i * dy] = x[(long)i * dx];
		x[(long)i * dx] = kept;
	}
	told(0, 4.0 * n);
}

void cblas_dscal(int n, double by, double *x, int dx)
{
	start();
	for (int i = 0; i < n; i++)
		x[(long)i * dx] *= by;
	told(n, 2.0 * n);
}

static void axpy(long n, double a, const double *restrict x, long dx, double *restrict y, long dy)
{
	if (dx == 1 && dy == 1)
		for (long i = 0; i < n; i++)
			y[i] += a * x[i];
	else
		for (long i = 0; i < n; i++)
			y[i * dy] += a * x[i * dx];
}

void cblas_daxpy(int n, double a, const double *x, int dx, double *y, int dy)
{
	start();
	axpy(n, a, FIRST(x, n, dx), dx, FIRST(y, n, dy), dy);
	told(2.0 * n, 3.0 * n);
}

int cblas_idamax(int n, const double *x, int dx)
{
	start();
	int largest = 0;
	double most = n > 0 ? fabs(x[0]) : 0;
	/* NaN counts as the largest, so that it is detected. */
	for (int i = 1; i < n && !isnan(most); i++)
		if (!(fabs(x[(long)i * dx]) <= most)) {
			most = fabs(x[(long)i * dx]);
			largest = i;
		}
	told(n, n);
	refuse(!isfinite(most), "idamax, with NaN or infinity,");
	if (n > FEW) {
		pivots++;
		places += largest / (n - 1.0);
		most_of_all = fmax(most_of_all, most);
		least_of_all = fmin(least_of_all, most);
	}
	return largest;
}

void cblas_dger(int order, int m, int n, double a, const double *x, int dx, const double *y, int dy, double *at, int lda)
{
	refuse(order != COLUMN_MAJOR || dx < 0 || dy < 0, "dger");
	start();
	for (int j = 0; j < n; j++)
		axpy(m, a * y[(long)j * dy], x, dx, at + (long)j * lda, 1);
	told(2.0 * m * n, 2.0 * m * n + m + n);
}

static void scale(long n, double by, double *x, long dx)
{
	for (long i = 0; by != 1 && i < n; i++)
		x[i * dx] = by == 0 ? 0 : by * x[i * dx];
}

static double product(long n, const double *x, long dx, const double *y, long dy)
{
	double sum = 0;
	for (long i = 0; i < n; i++)
		sum += x[i * dx] * y[i * dy];
	return sum;
}

void cblas_dgemv(int order, int transposed, int m, int n, double a, const double *at, int lda, const double *x, int dx, double b,
		 double *y, int dy)
{
	refuse(order != COLUMN_MAJOR || dx < 0 || dy < 0, "dgemv");
	start();
	scale(transposed == NO_TRANSPOSE ? m : n, b, y, dy);
	for (int j = 0; j < n; j++)
		if (transposed == NO_TRANSPOSE)
			axpy(m, a * x[(long)j * dx], at + (long)j * lda, 1, y, dy);
		else
			y[(long)j * dy] += a * product(m, at + (long)j * lda, 1, x, dx);
	told(2.0 * m * n, 1.0 * m * n + (transposed == NO_TRANSPOSE ? 2.0 * m + n : m + 2.0 * n));
}

/* x of a triangle A with op(A) x = x, in place. A transposed upper triangle is a lower one, its rows and columns exchanged. */
static void solve(bool upper, bool transposed, bool unit, long n, const double *at, long lda, double *x, long dx)
{
	long row = transposed ? lda : 1, column = transposed ? 1 : lda;
	bool backwards = upper != transposed;
	for (long done = 0; done < n; done++) {
		long j = backwards ? n - 1 - done : done;
		if (!unit)
			x[j * dx] /= at[j * row + j * column];
		if (backwards)
			axpy(j, -x[j * dx], at + j * column, row, x, dx);
		else
			axpy(n - 1 - j, -x[j * dx], at + (j + 1) * row + j * column, row, x + (j + 1) * dx, dx);
	}
}

void cblas_dtrsv(int order, int triangle, int transposed, int diagonal, int n, const double *at, int lda, double *x, int dx)
{
	refuse(order != COLUMN_MAJOR || dx < 0, "dtrsv");
	start();
	solve(triangle == UPPER, transposed != NO_TRANSPOSE, diagonal == UNIT, n, at, lda, x, dx);
	told(1.0 * n * n, 0.5 * n * n + 2.0 * n);
}

/* Solves op(A) X = a B, or X op(A) = a B, which is op(A)' X' = a B'; stores X in B. */
void cblas_dtrsm(int order, int side, int triangle, int transposed, int diagonal, int m, int n, double a, const double *at, int lda,
		 double *b, int ldb)
{
	refuse(order != COLUMN_MAJOR, "dtrsm");
	if (m == 0 || n == 0)
		return;
	start();
	double size = side == LEFT ? m : n;
	bool left = side == LEFT, turned = (transposed != NO_TRANSPOSE) == left;
	if (size < inner)
		for (long one = 0; one < (left ? n : m); one++) {
			double *x = left ? b + one * ldb : b + one;
			long step = left ? 1 : ldb;
			scale((long)size, a, x, step);
			solve(triangle == UPPER, turned, diagonal == UNIT, (long)size, at, lda, x, step);
		}
	told(1.0 * m * n * size, 0.5 * size * size + 2.0 * m * n);
}

void cblas_dgemm(int order, int of_a, int of_b, int m, int n, int k, double a, const double *at, int lda, const double *bt, int ldb,
		 double b, double *ct, int ldc)
{
	refuse(order != COLUMN_MAJOR, "dgemm");
	/* While HPL waits for a panel, it passes empty operands between probes. */
	if (m == 0 || n == 0)
		return;
	start();
	for (long j = 0; k < inner && j < n; j++) {
		double *c = ct + j * ldc;
		scale(m, b, c, 1);
		for (long l = 0; l < k; l++) {
			double factor = a * (of_b == NO_TRANSPOSE ? bt[l + j * ldb] : bt[j + l * ldb]);
			axpy(m, factor, of_a == NO_TRANSPOSE ? at + l * lda : at + l, of_a == NO_TRANSPOSE ? 1 : lda, c, 1);
		}
	}
	told(2.0 * m * n * k, 1.0 * m * k + 1.0 * k * n + 2.0 * m * n);
}
