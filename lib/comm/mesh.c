/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <tpp/mesh.h>

enum { AXES = TPP_MESH_AXES, ALL_BITS = (1 << TPP_MESH_AXES) - 1 };

static const char *const names[AXES] = {"tp", "cp", "pp", "dp"};

/* A mesh that was read: degrees of at least 1, the distance from a rank to the next along each axis. */
typedef struct grid {
    int32_t degree[AXES];
    int32_t axis[AXES]; /* from the fastest to the slowest */
    int64_t stride[AXES];
    int64_t ranks;
} grid;

static tpp_status read_order(grid *g, const tpp_mesh_desc *m) {
    uint32_t seen = 0;
    bool given = m->order[0] | m->order[1] | m->order[2] | m->order[3];
    for (int32_t i = 0; i < AXES; i++) {
        int32_t axis = given ? m->order[i] : i + 1;
        if (axis < 1 || axis > AXES || (seen & (1u << axis)))
            return tpp__fail(TPP_ERR_INVALID,
                             "mesh.order[%d] = %d is not accepted; accepted: 1 (tp), 2 (cp), 3 "
                             "(pp), 4 (dp), each once, or 0 for all",
                             i, axis);
        seen |= 1u << axis;
        g->axis[i] = axis - 1;
    }
    return TPP_OK;
}

static tpp_status read_mesh(grid *g, const tpp_mesh_desc *mesh) {
    tpp_mesh_desc m;
    *g = (grid){.ranks = 1};
    tpp_status status = tpp__sized_read(&m, sizeof m, 0, mesh, "mesh");
    if (status == TPP_OK)
        status = read_order(g, &m);
    if (status != TPP_OK)
        return status;
    for (int32_t i = 0; i < AXES; i++) {
        int32_t axis = g->axis[i], degree = m.degree[axis];
        if (degree < 0)
            return tpp__fail(TPP_ERR_INVALID,
                             "mesh.degree[%d] (%s) = %d is not accepted; accepted: 0 (1) or more",
                             axis, names[axis], degree);
        g->degree[axis] = degree > 0 ? degree : 1;
        g->stride[axis] = g->ranks;
        if (!tpp__mul(g->ranks, g->degree[axis], &g->ranks))
            return tpp__fail(TPP_ERR_OVERFLOW, "the mesh's ranks do not fit into 64 bits");
    }
    return TPP_OK;
}

static tpp_status read_rank(grid *g, const tpp_mesh_desc *mesh, int64_t rank, const void *out) {
    tpp_status status = read_mesh(g, mesh);
    if (status == TPP_OK && !out)
        status = tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to the result");
    if (status == TPP_OK && (rank < 0 || rank >= g->ranks))
        status = tpp__fail(TPP_ERR_RANGE, "rank = %lld is not accepted; accepted: 0 .. %lld",
                           (long long)rank, (long long)g->ranks - 1);
    return status;
}

static tpp_status check_axes(uint32_t axes) {
    if (axes != 0 && axes <= ALL_BITS)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "axes = %u is not accepted; accepted: 1 .. %d", axes,
                     ALL_BITS);
}

static int32_t coordinate(const grid *g, int64_t rank, int32_t axis) {
    return (int32_t)(rank / g->stride[axis] % g->degree[axis]);
}

/* The lowest rank of the group, and how many it has. */
static int64_t group_of(const grid *g, uint32_t axes, int64_t rank, int64_t *count) {
    *count = 1;
    for (int32_t axis = 0; axis < AXES; axis++) {
        if (axes & (1u << axis)) {
            rank -= g->stride[axis] * coordinate(g, rank, axis);
            *count *= g->degree[axis];
        }
    }
    return rank;
}

tpp_status tpp_mesh_ranks(const tpp_mesh_desc *mesh, int64_t *out) {
    grid g;
    tpp_status status = read_rank(&g, mesh, 0, out);
    if (status == TPP_OK)
        *out = g.ranks;
    return status;
}

tpp_status tpp_mesh_coordinates(const tpp_mesh_desc *mesh, int64_t rank, int32_t *out) {
    grid g;
    tpp_status status = read_rank(&g, mesh, rank, out);
    for (int32_t axis = 0; status == TPP_OK && axis < AXES; axis++)
        out[axis] = coordinate(&g, rank, axis);
    return status;
}

tpp_status tpp_mesh_rank(const tpp_mesh_desc *mesh, const int32_t *coordinates, int64_t *out) {
    grid g;
    int64_t rank = 0;
    if (!coordinates)
        return tpp__fail(TPP_ERR_INVALID, "coordinates is NULL; it must have %d entries", AXES);
    tpp_status status = read_rank(&g, mesh, 0, out);
    if (status != TPP_OK)
        return status;
    for (int32_t axis = 0; axis < AXES; axis++) {
        if (coordinates[axis] < 0 || coordinates[axis] >= g.degree[axis])
            return tpp__fail(TPP_ERR_RANGE,
                             "coordinates[%d] (%s) = %d is not accepted; accepted: 0 .. %d", axis,
                             names[axis], coordinates[axis], g.degree[axis] - 1);
        rank += g.stride[axis] * coordinates[axis];
    }
    *out = rank;
    return TPP_OK;
}

tpp_status tpp_mesh_group(const tpp_mesh_desc *mesh, uint32_t axes, int64_t rank, int64_t *out) {
    grid g;
    int64_t count;
    tpp_status status = read_rank(&g, mesh, rank, out);
    if (status == TPP_OK)
        status = check_axes(axes);
    if (status != TPP_OK)
        return status;
    int64_t lowest = group_of(&g, axes, rank, &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i; /* digits of i, the fastest axis first: so ranks rise */
        out[i] = lowest;
        for (int32_t k = 0; k < AXES; k++) {
            int32_t axis = g.axis[k];
            if (axes & (1u << axis)) {
                out[i] += rest % g.degree[axis] * g.stride[axis];
                rest /= g.degree[axis];
            }
        }
    }
    return TPP_OK;
}

tpp_status tpp_mesh_comm(const tpp_mesh_desc *mesh, uint32_t axes, tpp_comm *comm, tpp_comm **out) {
    grid g;
    int64_t count;
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a group of all ranks");
    int32_t rank = tpp_comm_rank(comm);
    tpp_status status = read_rank(&g, mesh, 0, out);
    if (status == TPP_OK)
        status = check_axes(axes);
    if (status != TPP_OK)
        return status;
    if (g.ranks != tpp_comm_size(comm))
        return tpp__fail(TPP_ERR_INVALID, "comm has %d ranks, but the mesh has %lld",
                         tpp_comm_size(comm), (long long)g.ranks);
    int32_t color = (int32_t)group_of(&g, axes, rank, &count);
    return tpp_comm_split(comm, out, color, rank);
}
