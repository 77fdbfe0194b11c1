/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/address.h"

#include <string.h>

static void check(const char *text, const char *key)
{
    struct sheaf__address address;
    struct sheaf__str found = {0};
    sheaf_error err;
    if (sheaf__address_parse(text, "test", &address, &err) != SHEAF_OK)
        fail_msg("%s", err.message);
    sheaf__address_key(&address, &found);
    assert_string_equal(sheaf__str_text(&found), key);
    sheaf__str_free(&found);
}

static void check_refused(const char *text, const char *message)
{
    struct sheaf__address address;
    sheaf_error err = {0};
    assert_int_equal(sheaf__address_parse(text, "worker:0", &address, &err),
                     SHEAF_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "worker:0: address"));
    if (!strstr(err.message, message))
        fail_msg("\"%s\" does not say \"%s\"", err.message, message);
}

static void names_and_numbers(void **state)
{
    (void)state;
    check("localhost:12345", "localhost:12345");
    check("127.0.0.1:1", "127.0.0.1:1");
    check("127.example.org:1", "127.example.org:1");
    check("10.0.0.7:65535", "10.0.0.7:65535");
}

/* Demand 43, T13: whatever the resolver accepts, compared without case. */
static void t13_odd_host_names(void **state)
{
    (void)state;
    check("node_1:2222", "node_1:2222");
    check("Node1.Example.ORG:02222", "node1.example.org:2222");
}

static void demand_43_ipv6_in_brackets(void **state)
{
    (void)state;
    check("[::1]:80", "::1:80");
    check("[FE80::1%eth0]:2222", "fe80::1%eth0:2222");
    check_refused("fe80::1:2222", "is ambiguous");
    check_refused("::1", "is ambiguous");
    check_refused("[::1]", "does not end like");
    check_refused("[::1]80", "does not end like");
    check_refused("[::1:80", "does not end like");
    check_refused("[]:80", "has no host");
}

static void bad_addresses(void **state)
{
    (void)state;
    check_refused("worker0", "has no port");
    check_refused(":2222", "has no host");
    check_refused("host:", "bad port");
    check_refused("host:0", "bad port");
    check_refused("host:65536", "bad port");
    check_refused("host:-1", "bad port");
    check_refused("host:+1", "bad port");
    check_refused("host:80x", "bad port");
    check_refused("ho st:80", "has a blank");
    check_refused("grpc://host:80", "slash");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(t13_odd_host_names),
        cmocka_unit_test(demand_43_ipv6_in_brackets),
        cmocka_unit_test(bad_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
