/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_COMM_SOCKET_H
#define TPP_SUPPORT_COMM_SOCKET_H

#include <tpp/comm.h>

/* A transport between processes: a socket for each pair of ranks, made before they are forked. Messages
 * are told apart by tag and may be received in another order than they were sent in. Nothing moves
 * unless asked after; abort, and the end of a process, close the sockets, which the others find out.
 * A rank is served by one thread. */

enum { COMM_SOCKET_MOST = 8 };

/* The sockets of all ranks: [rank][peer]. */
typedef struct comm_mesh {
    int32_t size;
    int fd[COMM_SOCKET_MOST][COMM_SOCKET_MOST];
} comm_mesh;

/* 0, or -1 with errno. */
int comm_mesh_open(comm_mesh *mesh, int32_t size);

/* Close all ends that are not this rank's; -1: all. */
void comm_mesh_keep(comm_mesh *mesh, int32_t rank);

/* Takes the rank's ends over. */
tpp_status comm_socket_create(tpp_comm **out, const comm_mesh *mesh, int32_t rank, double timeout);

#endif
