/* policy fmt: what changes, what stays, and that the second time changes nothing. */
#include "tests/unit/policy_support.h"

#include <dirent.h>

#include "policy/tools.h"

static char *format(const char *text, int expected) {
    struct buf out;
    struct policy_diags diags;
    buf_init(&out, 8 << 20);
    policy_diags_init(&diags);
    assert_int_equal(policy_format_text("t.policy", slice_str(text), &out, &diags), expected);
    char *s = strdup(buf_cstr(&out));
    policy_diags_release(&diags);
    buf_release(&out);
    return s;
}

static void formats(const char *text, const char *expected) {
    char *once = format(text, 0), *twice = format(once, 0);
    assert_string_equal(once, expected);
    assert_string_equal(twice, expected);
    free(once);
    free(twice);
}

static void layout(void **state) {
    (void)state;
    formats("", "");
    formats("\n\n# a comment  \n\n\n\n  # another\n", "# a comment\n\n# another\n");
    formats(
        "allow   GET\thttps://a.test/   with x   # why\nallow GET,HEAD https://a.test/longer with y",
        "allow GET      https://a.test/       with x  # why\nallow GET,HEAD https://a.test/longer with y\n");
    formats("allow GET https://a.test/\r\ndeny POST https://a.test/\r\n",
            "allow GET  https://a.test/\ndeny  POST https://a.test/\n");
    /* a blank line and a comment end the columns */
    formats("allow GET https://a.test/\n\nallow GET,HEAD https://a.test/\n# c\nallow GET https://a.test/\n",
            "allow GET https://a.test/\n\nallow GET,HEAD https://a.test/\n# c\nallow GET https://a.test/\n");
    /* also behind a blank line */
    formats("# c\n\nallow fetch https://a.test/r with x\nask push https://a.test/long with x\n",
            "# c\n\nallow fetch https://a.test/r    with x\nask   push  https://a.test/long with x\n");
    /* a tunnel's action is its verb */
    formats(
        "allow GET https://a.test/\ntunnel https://a.test\ndeny tunnel https://b.test # c\n",
        "allow  GET    https://a.test/\ntunnel        https://a.test\ndeny   tunnel https://b.test  # c\n");
    formats("tunnel  https://a.test\ntunnel https://b.test   note \"x\"\n",
            "tunnel https://a.test\ntunnel https://b.test note \"x\"\n");
    formats("expect tunnel https://a.test\nexpect deny tunnel https://b.test\n",
            "expect tunnel        https://a.test\nexpect deny   tunnel https://b.test\n");
    formats("expect allow GET https://a.test/\nexpect deny POST https://a.test/ # x\n",
            "expect allow GET  https://a.test/\nexpect deny  POST https://a.test/  # x\n");
    formats("let  a  =  b\ninclude   \"x y.policy\"  #z\n", "let a = b\ninclude \"x y.policy\"  #z\n");
    /* a statement that is continued keeps its lines */
    formats("allow push https://a.test/r \\\n  refs/heads/a   refs/heads/b \\\n\tcreate  # c\n",
            "allow push https://a.test/r \\\n    refs/heads/a refs/heads/b \\\n    create  # c\n");
    formats("allow GET https://a.test/ note \"two  blanks # here\"\n",
            "allow GET https://a.test/ note \"two  blanks # here\"\n");
}

/* Lists of a condition, with what would be a comment elsewhere. */
static void lists(void **state) {
    (void)state;
    formats("allow POST https://a.test/ where json a in ( x ,y,\"b  #c\" )   and query q == \"d  e\"\n",
            "allow POST https://a.test/ where json a in (x, y, \"b  #c\") and query q == \"d  e\"\n");
    formats("allow POST https://a.test/ where query q == a,b with c\n",
            "allow POST https://a.test/ where query q == a,b with c\n");
    formats("allow POST https://a.test/ \\\n where json a in (x, \\\n y)\n",
            "allow POST https://a.test/ \\\n    where json a in (x, \\\n    y)\n");
    /* no list: brackets are words, or parts of them */
    formats("deny push https://a.test/r refs/x\" )\n", "deny push https://a.test/r refs/x\" )\n");
}

static void faults(void **state) {
    (void)state;
    free(format("allow get https://a.test/\n", ERR_PARSE));
    free(format("frob\n", ERR_PARSE));
    free(format("let a = \\", ERR_PARSE)); /* a line break behind it would be a continuation */
}

/* The policies of a folder are in the usual layout. Returns how many there are. */
static size_t in_layout(const char *folder) {
    char path[2048];
    DIR *d = opendir(folder);
    assert_non_null(d);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!slice_ends(slice_str(e->d_name), SLICE(".policy")))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        static char text[1 << 16];
        FILE *f = fopen(path, "r");
        size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
        assert_non_null(f);
        fclose(f);
        text[len] = 0;
        char *formatted = format(text, 0);
        if (strcmp(formatted, text) != 0)
            print_error("%s: not in the layout of `exeat policy fmt`\n", path);
        assert_string_equal(formatted, text);
        free(formatted);
        n++;
    }
    closedir(d);
    return n;
}

static void shipped(void **state) {
    (void)state;
    char folder[1024];
    const char *top = getenv("TOP_SRCDIR");
    snprintf(folder, sizeof folder, "%s/policy", top ? top : "..");
    assert_true(in_layout(folder) > 25);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layout), cmocka_unit_test(lists),
                                       cmocka_unit_test(faults), cmocka_unit_test(shipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
