#include "api/request/request.h"
#include "server/hub/hop.h"
#include "server/hub/name.h"
#include "server/hub/sha256.h"
#include "tests/support/unit.h"

#include <string.h>

static const struct {
    const char *name;
    bool good;
} revisions[] = {
    {"main", true},      {"refs/pr/4", true}, {"v1.0+cu118", true}, {"0123456789abcdef0123456789abcdef01234567", true},
    {"a@b", true},       {"", false},         {"/", false},         {"/a", false},
    {"a/", false},       {"a//b", false},     {"a/.b", false},      {".", false},
    {"..", false},       {"a/../b", false},   {"a.lock", false},    {".lock", false},
    {"a.", false},       {"a./b", false},     {"a b", false},       {"a\nb", false},
    {"a?b", false},      {"a#b", true},       {"a%2fb", true},      {"a@{1}", false},
    {"\xc3\xa4", false}, {"a\\b", false},     {"a\"b", false},
};

START_TEST(revision)
{
    ck_assert(!revision_fault(revisions[_i].name) == revisions[_i].good);
}
END_TEST

static const struct {
    const char *name;
    bool good;
} tokens[] = {{"hf_abcDEF123", true}, {"", false},         {"a b", false}, {"a\r\nX-Evil: 1", false},
              {"a\x7f", false},       {"\xc3\xa4", false}, {"~!", true}};

START_TEST(token)
{
    ck_assert(!token_fault(tokens[_i].name) == tokens[_i].good);
}
END_TEST

START_TEST(commit)
{
    ck_assert(is_commit("0123456789abcdef0123456789abcdef01234567"));
    ck_assert(!is_commit("0123456789abcdef0123456789abcdef0123456"));
    ck_assert(!is_commit("0123456789abcdef0123456789abcdef012345678"));
    ck_assert(!is_commit("0123456789ABCDEF0123456789abcdef01234567"));
    ck_assert(!is_commit(""));
}
END_TEST

START_TEST(quoting)
{
    char text[32];

    ck_assert(url_quote("refs/pr/4", text, sizeof text));
    ck_assert_str_eq(text, "refs%2Fpr%2F4");
    ck_assert(url_quote("a-b.c_d~e+\xff", text, sizeof text));
    ck_assert_str_eq(text, "a-b.c_d~e%2B%FF");
    ck_assert(!url_quote("/", text, 3));
    ck_assert(url_quote("/", text, 4));
    ck_assert(!url_quote("a", text, 1));
}
END_TEST

START_TEST(urls)
{
    char text[100];

    ck_assert(url_of_file("https://h/p", "o/m", "refs/pr/1", "config.json", text, sizeof text));
    ck_assert_str_eq(text, "https://h/p/o/m/resolve/refs%2Fpr%2F1/config.json");
    ck_assert(url_of_facts("https://h", "gpt2", "main", "expand=sha", text, sizeof text));
    ck_assert_str_eq(text, "https://h/api/models/gpt2/revision/main?expand=sha");
    ck_assert(!url_of_file("https://h/p", "o/m", "main", "config.json", text, 20));
}
END_TEST

static const struct {
    const char *host;
    bool here;
} hosts[] = {
    {"localhost", true}, {"LOCALHOST", true},  {"127.0.0.1", true},           {"127.255.3.4", true},         {"[::1]", true},
    {"::1", true},       {"128.0.0.1", false}, {"10.0.0.1", false},           {"localhost.evil.org", false}, {"127.0.0.1.evil.org", false},
    {"", false},         {"0.0.0.0", false},   {"[::ffff:127.0.0.1]", false},
};

START_TEST(loopback)
{
    ck_assert(is_loopback(hosts[_i].host) == hosts[_i].here);
}
END_TEST

/* https://hub, http://127.0.0.1:80: "scheme host port". */
static const struct {
    struct origin home, from, to;
    bool good;
} hops[] = {
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "hub", "443"}, true},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "cdn.org", "443"}, true},
    {{"https", "hub", "443"}, {"https", "cdn.org", "443"}, {"https", "hub", "443"}, true},
    {{"https", "hub", "8443"}, {"https", "hub", "8443"}, {"https", "hub", "443"}, true},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"http", "hub", "80"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "hub", "22"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "10.0.0.1", "443"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "0x7f.1", "443"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "2130706433", "443"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "[fd00::1]", "443"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"https", "localhost", "443"}, false},
    {{"https", "hub", "443"}, {"https", "hub", "443"}, {"file", "", ""}, false},
    {{"https", "10.0.0.9", "8443"}, {"https", "10.0.0.9", "8443"}, {"https", "10.0.0.9", "8443"}, true}, /* an own mirror's own redirects */
    {{"http", "127.0.0.1", "80"}, {"http", "127.0.0.1", "80"}, {"http", "127.0.0.2", "9000"}, true},
    {{"http", "127.0.0.1", "80"}, {"http", "127.0.0.1", "80"}, {"http", "localhost", "80"}, true},
    {{"http", "127.0.0.1", "80"}, {"http", "127.0.0.1", "80"}, {"https", "cdn.org", "443"}, true},
    {{"http", "127.0.0.1", "80"}, {"http", "127.0.0.1", "80"}, {"http", "cdn.org", "80"}, false},
    {{"http", "127.0.0.1", "80"}, {"https", "cdn.org", "443"}, {"http", "127.0.0.1", "80"}, false},
    {{"http", "127.0.0.1", "80"}, {"http", "127.0.0.1", "80"}, {"http", "169.254.169.254", "80"}, false},
};

START_TEST(hop)
{
    ck_assert(!hop_fault(&hops[_i].home, &hops[_i].from, &hops[_i].to) == hops[_i].good);
}
END_TEST

/* FIPS 180-4's own examples, and lengths around a block. */
static const struct {
    const char *text, *hex;
} sums[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
};

START_TEST(sum)
{
    char hex[SHA256_HEX];

    sha256_hex(sums[_i].text, strlen(sums[_i].text), hex);
    ck_assert_str_eq(hex, sums[_i].hex);
}
END_TEST

UNIT_TESTS("hub/name", unit_rows(revision, revisions); unit_rows(token, tokens); unit_test(commit); unit_test(quoting); unit_test(urls);
           unit_rows(loopback, hosts); unit_rows(hop, hops); unit_rows(sum, sums);)
