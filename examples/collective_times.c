/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* How long does an all-reduce take, which algorithm is the fastest, and what would a transformer layer
 * wait for? On 8 nodes of a known cluster: cc collective_times.c $(pkg-config --cflags --libs tpp) -o
 * collective_times && ./collective_times h100 */
#include <stdio.h>
#include <tpp/tpp.h>

static const char *const algorithms[] = {"-", "ring", "tree", "recursive", "halving", "two-level"};

static int failed(tpp_status st) {
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    return st < 0;
}

/* All-reduces of ranks with a stride, from 1 KB to 1 GB. */
static int print_group(const tpp_cluster *c, const char *title, int64_t ranks, int64_t stride) {
    printf("\n%s\n       bytes  microseconds  GB/s sent  algorithm\n", title);
    for (double bytes = 1e3; bytes < 2e9; bytes *= 1000) {
        tpp_collective_time t = {.size = sizeof t};
        if (failed(tpp_cluster_collective(c, TPP_COLLECTIVE_ALL_REDUCE, TPP_ALGORITHM_BEST, bytes,
                                          ranks, stride, &t)))
            return 1;
        printf("%12.0f  %12.1f  %9.1f  %s\n", bytes, 1e6 * t.seconds, 1e-9 * t.bytes / t.seconds,
               algorithms[t.algorithm]);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "h100";
    tpp_cluster c = {.size = sizeof c};
    if (failed(tpp_cluster_preset(&c, name, 8)))
        return 1;
    int64_t node = c.links[0].ranks;
    printf("%lld ranks, %lld in a node\n\n%s", (long long)c.ranks, (long long)node,
           tpp_cluster_preset_sources(name));
    if (print_group(&c, "all-reduce in a node", node, 1) ||
        print_group(&c, "all-reduce of one rank from each node", 8, node) ||
        print_group(&c, "all-reduce of all ranks", c.ranks, 1))
        return 1;
    double flops =
        2.0 * 4096 * 8192 * 28672 / (double)node; /* [4096, 8192] x [8192, 28672 / node] */
    printf("\na product of %.0f GFLOP takes %.0f microseconds\n", 1e-9 * flops,
           1e6 * tpp_cluster_product(&c, TPP_BF16, flops));
    return 0;
}
