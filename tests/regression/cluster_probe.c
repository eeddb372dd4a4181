/* SPDX-FileCopyrightText: the miniSP contributors
   SPDX-License-Identifier: BSD-3-Clause
   Prints what an MPI program sees of the hosts that it runs on: one line a rank, and the time of one
   all-to-all over all ranks and over those of a node. Then, on request, exchanges until it is stopped, or
   exits with a code: cluster_probe [forever | EXIT_CODE] */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { buffer_bytes = 1 << 20, name_bytes = 64, rounds = 4 };

static char send_buffer[buffer_bytes], receive_buffer[buffer_bytes];

static void exchange(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  MPI_Alltoall(send_buffer, buffer_bytes / size, MPI_BYTE, receive_buffer, buffer_bytes / size, MPI_BYTE,
               comm);
}

/* Milliseconds of one exchange, the fastest of several (the first ones open connections). */
static double best_time(MPI_Comm comm) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(comm);
    double seconds = -MPI_Wtime();
    exchange(comm);
    seconds += MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
    if (seconds < best) best = seconds;
  }
  return 1e3 * best;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0, node_ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &node_ranks);

  char name[name_bytes] = "", line[2 * name_bytes] = "";
  gethostname(name, sizeof name - 1);
  snprintf(line, sizeof line, "rank %d host %s of %d", rank, name, node_ranks);
  char* lines = malloc((size_t)ranks * sizeof line);
  MPI_Gather(line, sizeof line, MPI_CHAR, lines, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
  const double all_ms = best_time(MPI_COMM_WORLD);
  const double node_ms = best_time(node);
  if (rank == 0) {
    for (int i = 0; i < ranks; ++i) puts(lines + (size_t)i * sizeof line);
    printf("all-to-all of %d bytes a rank: %.0f us over all, %.0f us over a node\n", buffer_bytes,
           1e3 * all_ms, 1e3 * node_ms);
    fflush(stdout);
  }
  free(lines);
  const int forever = argc > 1 && strcmp(argv[1], "forever") == 0;
  while (forever) exchange(MPI_COMM_WORLD);
  MPI_Comm_free(&node);
  MPI_Finalize();
  return argc > 1 ? atoi(argv[1]) : 0;
}
