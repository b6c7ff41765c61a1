! Messages round a ring by each of Fortran's three interfaces; prints "sent MESSAGES BYTES" of all ranks.
module by_module
contains
  subroutine round_by_module(messages)
    use mpi
    integer, intent(inout) :: messages
    integer :: rank, ranks, error, requests(2), statuses(MPI_STATUS_SIZE, 2)
    double precision :: out(25), in(25)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    out = rank
    call MPI_Irecv(in, 25, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(out, 25, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 1, MPI_COMM_WORLD, requests(2), error)
    call MPI_Waitall(2, requests, statuses, error)
    messages = messages + 1
    if (in(1) /= mod(rank + ranks - 1, ranks)) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end module

module by_f08
contains
  subroutine round_by_f08(messages)
    use mpi_f08
    integer, intent(inout) :: messages
    integer :: rank, ranks
    double precision :: out(25), in(25)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    out = rank
    call MPI_Sendrecv(out, 25, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 2, in, 25, MPI_DOUBLE_PRECISION, &
                      mod(rank + ranks - 1, ranks), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Barrier(MPI_COMM_WORLD)
    messages = messages + 1
  end subroutine
end module

program ring
  use by_module
  use by_f08
  implicit none
  include 'mpif.h'
  integer :: rank, ranks, error, messages, all, status(MPI_STATUS_SIZE)
  double precision :: out(25), in(25), total
  messages = 0
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  out = rank
  call MPI_Sendrecv(out, 25, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 0, in, 25, MPI_DOUBLE_PRECISION, &
                    mod(rank + ranks - 1, ranks), 0, MPI_COMM_WORLD, status, error)
  messages = messages + 1
  call round_by_module(messages)
  call round_by_f08(messages)
  call MPI_Allreduce(out(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Reduce(messages, all, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a, i0, 1x, i0)', 'sent ', all, all * 200
  call MPI_Finalize(error)
end program
