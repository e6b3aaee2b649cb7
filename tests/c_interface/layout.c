// SPDX-License-Identifier: Apache-2.0

// Layouts and numbers on which compiled programs and bindings rely. Members may only be added at
// the end of fc_job_options and fc_node_description, and numbers may only be added.
#include <farcall/c/library.h>
#include <farcall/c/queue.h>
#include <farcall/c/serving.h>
#include <farcall/farcall.h>

_Static_assert(sizeof(void*) == 8, "the numbers below are for 64 bits");

_Static_assert(sizeof(fc_node) == 32, "fc_node");
_Static_assert(offsetof(fc_node, job) == 0 && offsetof(fc_node, lane) == 8, "fc_node");
_Static_assert(offsetof(fc_node, deadline) == 16 && offsetof(fc_node, id) == 24, "fc_node");
_Static_assert(offsetof(fc_node, flags) == 28, "fc_node");

_Static_assert(sizeof(fc_span) == 24, "fc_span");
_Static_assert(offsetof(fc_span, address) == 0 && offsetof(fc_span, bytes) == 8, "fc_span");
_Static_assert(offsetof(fc_span, node) == 16, "fc_span");

_Static_assert(sizeof(fc_bytes) == 16, "fc_bytes");
_Static_assert(offsetof(fc_bytes, at) == 0 && offsetof(fc_bytes, size) == 8, "fc_bytes");

_Static_assert(sizeof(fc_completion) == 16, "fc_completion");
_Static_assert(offsetof(fc_completion, tag) == 0, "fc_completion");
_Static_assert(offsetof(fc_completion, future) == 8, "fc_completion");

_Static_assert(offsetof(fc_job_options, size) == 0, "fc_job_options");
_Static_assert(offsetof(fc_job_options, targets) == 8, "fc_job_options");
_Static_assert(offsetof(fc_job_options, program) == 16, "fc_job_options");
_Static_assert(offsetof(fc_job_options, arguments) == 24, "fc_job_options");
_Static_assert(offsetof(fc_job_options, key) == 32, "fc_job_options");
_Static_assert(offsetof(fc_job_options, existing_targets) == 64, "fc_job_options");
_Static_assert(offsetof(fc_job_options, heap_bytes) == 80, "fc_job_options");
_Static_assert(offsetof(fc_job_options, lane_bytes) == 88, "fc_job_options");
_Static_assert(offsetof(fc_job_options, heartbeat_timeout_ms) == 100, "fc_job_options");
_Static_assert(offsetof(fc_job_options, yield_after_us) == 112, "fc_job_options");
_Static_assert(offsetof(fc_job_options, peer_timeout_ms) == 120, "fc_job_options");
_Static_assert(offsetof(fc_job_options, release_timeout_ms) == 124, "fc_job_options");
_Static_assert(offsetof(fc_job_options, restart_lost_servers) == 128, "fc_job_options");
_Static_assert(offsetof(fc_job_options, progress) == 136, "fc_job_options");
_Static_assert(offsetof(fc_job_options, crash_report) == 176, "fc_job_options");
_Static_assert(offsetof(fc_job_options, workers) == 184, "fc_job_options");
_Static_assert(offsetof(fc_job_options, survive) == 192, "fc_job_options");
_Static_assert(offsetof(fc_job_options, output) == 200, "fc_job_options");
_Static_assert(offsetof(fc_job_options, output_user) == 208, "fc_job_options");

_Static_assert(offsetof(fc_node_event, node) == 0 && offsetof(fc_node_event, why) == 32 &&
                   offsetof(fc_node_event, what) == 40 && offsetof(fc_node_event, replaces) == 44,
               "fc_node_event");
_Static_assert(FC_CHANGE_JOINED == 1 && FC_CHANGE_FAILED == 2 && FC_CHANGE_REMOVED == 3,
               "fc_node_change");

_Static_assert(offsetof(fc_node_description, name) == 0, "fc_node_description");
_Static_assert(offsetof(fc_node_description, route) == 32, "fc_node_description");
_Static_assert(offsetof(fc_node_description, pid) == 40, "fc_node_description");
_Static_assert(offsetof(fc_node_description, workers) == 56, "fc_node_description");

_Static_assert(sizeof(fc_counter_values) == 16 * 8, "fc_counter_values");
_Static_assert(offsetof(fc_counter_values, size) == 0 && offsetof(fc_counter_values, calls) == 8 &&
                   offsetof(fc_counter_values, served) == 40 &&
                   offsetof(fc_counter_values, sleeps) == 72 &&
                   offsetof(fc_counter_values, puts) == 80 &&
                   offsetof(fc_counter_values, bytes_copied) == 120,
               "fc_counter_values");

_Static_assert(sizeof(fc_status) == sizeof(int), "fc_status");
_Static_assert(FC_OK == 0 && FC_ERROR == 1 && FC_REMOTE_ERROR == 2 && FC_NODE_FAILED == 3 &&
                   FC_TIMEOUT == 4 && FC_OUT_OF_MEMORY == 5 && FC_UNKNOWN_FUNCTION == 6 &&
                   FC_WRONG_NODE == 7 && FC_START_FAILED == 8 && FC_SETTING_ERROR == 9 &&
                   FC_MALFORMED == 10 && FC_INVALID_ARGUMENT == 11 && FC_FORKED == 12 &&
                   FC_NESTED_TOO_DEEP == 13 && FC_CANCELLED == 14 && FC_WOULD_BLOCK == 15 &&
                   FC_INTERRUPTED == 16 && FC_ENDED == 17,
               "fc_status");
_Static_assert(FC_NO_NODE == 0xffffffff && sizeof(fc_function) == 8, "numbers");

_Static_assert(sizeof(fc_library) == 40 && offsetof(fc_library, id) == 32, "fc_library");
_Static_assert(sizeof(fc_native) == 32 && offsetof(fc_native, type) == 8 &&
                   offsetof(fc_native, number) == 16 && offsetof(fc_native, node) == 20,
               "fc_native");
_Static_assert(sizeof(fc_value) == 16 && offsetof(fc_in_bytes, size) == 8 &&
                   offsetof(fc_out_bytes, size) == 8,
               "fc_value");
_Static_assert(sizeof(fc_taken) == 48 && offsetof(fc_taken, size) == 16 &&
                   offsetof(fc_taken, job) == 40,
               "fc_taken");
