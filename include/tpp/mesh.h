/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_MESH_H
#define TPP_MESH_H

/**
 * @file mesh.h
 * Where a rank stands when ranks are split along four axes, tensor (tp), context (cp), pipeline (pp)
 * and data parallel (dp), and which ranks it forms groups with. Index maps, and the one call that
 * makes such a group of a comm.
 *
 *     tpp_mesh_desc mesh = {0};
 *     mesh.size = sizeof mesh;
 *     mesh.degree[TPP_MESH_TP] = 4;
 *     mesh.degree[TPP_MESH_PP] = 2;
 *     mesh.degree[TPP_MESH_DP] = 2;                // 16 ranks; no context parallelism
 *     int32_t at[TPP_MESH_AXES];
 *     tpp_mesh_coordinates(&mesh, 13, at);         // tp 1, cp 0, pp 1, dp 1
 *     int64_t peers[2];
 *     tpp_mesh_group(&mesh, TPP_MESH_DP_BIT, 13, peers);        // 5 and 13
 *     tpp_comm *tp;
 *     tpp_mesh_comm(&mesh, TPP_MESH_TP_BIT, comm, &tp);         // collective
 *
 * The first axis of the order changes fastest from one rank to the next, so its groups are
 * neighbours: give it the fastest links. The default order is tp, cp, pp, dp (The Llama 3 Herd of
 * Models 2024, section 3.3.2; Narayanan et al. 2021, section 3: tensor parallelism within a node).
 */

#include <tpp/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPP_MESH_AXES 4

/** An axis of ranks. */
typedef int32_t tpp_mesh_axis;
enum {
    TPP_MESH_TP = 0, /**< tensor parallel */
    TPP_MESH_CP = 1, /**< context parallel */
    TPP_MESH_PP = 2, /**< pipeline parallel */
    TPP_MESH_DP = 3  /**< data parallel */
};

/* Sets of axes, for groups that span several: gradients are summed over CP_BIT | DP_BIT. */
#define TPP_MESH_TP_BIT 1
#define TPP_MESH_CP_BIT 2
#define TPP_MESH_PP_BIT 4
#define TPP_MESH_DP_BIT 8

/** How ranks are split. */
typedef struct tpp_mesh_desc {
    uint32_t size;
    uint32_t flags;                /**< 0 */
    int32_t degree[TPP_MESH_AXES]; /**< ranks along each axis, by tpp_mesh_axis; 0: 1 */
    /** axes from the fastest to the slowest, each once, as tpp_mesh_axis + 1; all 0: 1, 2, 3, 4 */
    int32_t order[TPP_MESH_AXES];
} tpp_mesh_desc;

/**
 * Number of ranks: the product of the degrees.
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_mesh_ranks(const tpp_mesh_desc *mesh, int64_t *out);

/**
 * Where a rank stands.
 *
 * @param rank 0 .. ranks - 1.
 * @param out  receives [TPP_MESH_AXES] coordinates, by tpp_mesh_axis.
 * @return as tpp_mesh_ranks; TPP_ERR_RANGE for a rank that is none. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_mesh_coordinates(const tpp_mesh_desc *mesh, int64_t rank, int32_t *out);

/**
 * The rank that stands somewhere: the inverse.
 *
 * @param coordinates [TPP_MESH_AXES], by tpp_mesh_axis, each 0 .. degree - 1.
 * @param out         receives the rank.
 * @return as tpp_mesh_ranks; TPP_ERR_RANGE (names the axis). Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_mesh_rank(const tpp_mesh_desc *mesh, const int32_t *coordinates,
                                 int64_t *out);

/**
 * The ranks of a rank's group along some axes: those whose other coordinates are the same.
 *
 * @param axes TPP_MESH_.._BIT, at least one.
 * @param out  receives as many ranks as the product of these axes' degrees, rising.
 * @return as tpp_mesh_coordinates. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_mesh_group(const tpp_mesh_desc *mesh, uint32_t axes, int64_t rank,
                                  int64_t *out);

/**
 * A comm of this rank's group along some axes; its ranks are those of tpp_mesh_group, in that order.
 *
 * @param comm its size must be the mesh's number of ranks; every rank calls with the same mesh and axes.
 * @param out  receives this rank's handle of the group.
 * @return as tpp_mesh_ranks; as tpp_comm_split.
 *
 * Comm: one tpp_comm_split. Memory: destroy with tpp_comm_destroy. Since: 0.1.
 */
TPP_API tpp_status tpp_mesh_comm(const tpp_mesh_desc *mesh, uint32_t axes, tpp_comm *comm,
                                 tpp_comm **out);

#ifdef __cplusplus
}
#endif

#endif
