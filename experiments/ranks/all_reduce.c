// Seconds of an all-reduce of so many fp32 numbers by MPI itself: what a run of fp32 gradients sends in each step.
// usage: mpirun -n 2 all_reduce COUNT TIMES
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? atoi(argv[1]) : 1, times = argc > 2 ? atoi(argv[2]) : 1;
  float* const mine = calloc((size_t)count, sizeof(float));
  float* const sum = calloc((size_t)count, sizeof(float));
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (mine == NULL || sum == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < times; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    MPI_Allreduce(mine, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%.3f\n", MPI_Wtime() - began);
  }
  MPI_Finalize();
  free(mine);
  free(sum);
  return 0;
}
