/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_UCX_API_H
#define SHEAF_NET_UCX_API_H

/* What of UCX is used, found in the library at run time (ucx_open.c). */

#include <sheaf/status.h>

#include <ucp/api/ucp.h>

#define SHEAF__UCX_FUNCTIONS(X)       \
    X(ucp_config_read)                \
    X(ucp_config_modify)              \
    X(ucp_config_release)             \
    X(ucp_init_version)               \
    X(ucp_worker_create)              \
    X(ucp_worker_destroy)             \
    X(ucp_worker_get_address)         \
    X(ucp_worker_release_address)     \
    X(ucp_worker_query)               \
    X(ucp_worker_get_efd)             \
    X(ucp_worker_arm)                 \
    X(ucp_worker_progress)            \
    X(ucp_worker_set_am_recv_handler) \
    X(ucp_ep_close_nbx)               \
    X(ucp_request_check_status)       \
    X(ucp_ep_create)                  \
    X(ucp_am_send_nbx)                \
    X(ucp_am_recv_data_nbx)           \
    X(ucp_am_data_release)            \
    X(ucp_request_free)               \
    X(ucs_status_string)

struct sheaf__ucx_api {
#define SHEAF__UCX_MEMBER(name) __typeof__(name) *name;
    SHEAF__UCX_FUNCTIONS(SHEAF__UCX_MEMBER)
#undef SHEAF__UCX_MEMBER
};

/* The functions and the context for `local` or other lanes, made at the first call. */
sheaf_status sheaf__ucx_load(bool local, const struct sheaf__ucx_api **api, ucp_context_h *context,
                             sheaf_error *err);
/* Descriptors that were opened since `before` was taken do not pass to other programs. */
struct sheaf__ucx_descriptors {
    uint64_t open[64]; /* a bit each */
};
void sheaf__ucx_note_descriptors(struct sheaf__ucx_descriptors *before);
void sheaf__ucx_keep_descriptors(const struct sheaf__ucx_descriptors *before);

#endif
