/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/trace_svg_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32, LONGEST = 32, MOST_ATTRIBUTES = 24 };

typedef struct reader {
    const char *at;
    const char *fault;
    int depth;
    char open[DEEPEST][LONGEST];
} reader;

static void fail(reader *r, const char *fault) {
    if (!*r->fault)
        r->fault = fault;
}

static void read_name(reader *r, char out[LONGEST]) {
    int n = 0;
    while (isalnum((unsigned char)*r->at) || strchr("-:_", *r->at ? *r->at : ' ')) {
        if (n < LONGEST - 1)
            out[n++] = *r->at;
        r->at++;
    }
    out[n] = 0;
    if (n == 0)
        fail(r, "a name is missing");
}

static void skip_space(reader *r) {
    while (*r->at && strchr(" \n", *r->at))
        r->at++;
}

static void read_entity(reader *r) {
    static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    for (int i = 0; i < 5; i++) {
        if (strncmp(r->at, known[i], strlen(known[i])) == 0) {
            r->at += strlen(known[i]);
            return;
        }
    }
    fail(r, "a bare & or an unknown entity");
}

/* Characters up to the end, which is a quote or '<'. */
static void read_characters(reader *r, char end) {
    while (*r->at && *r->at != end && !*r->fault) {
        unsigned char c = (unsigned char)*r->at;
        if (c == '&')
            read_entity(r);
        else if (c == '<' || (c < 0x20 && c != '\n'))
            fail(r, "a character that must not stand there");
        else
            r->at++;
    }
}

static void read_attributes(reader *r) {
    char names[MOST_ATTRIBUTES][LONGEST];
    for (int n = 0; n < MOST_ATTRIBUTES && !*r->fault; n++) {
        const char *before = r->at;
        skip_space(r);
        if (*r->at == '>' || *r->at == '/' || *r->at == '?')
            return;
        if (r->at == before)
            fail(r, "no space before an attribute");
        read_name(r, names[n]);
        for (int i = 0; i < n; i++) {
            if (strcmp(names[i], names[n]) == 0)
                fail(r, "an attribute twice");
        }
        if (strncmp(r->at, "=\"", 2) != 0) {
            fail(r, "an attribute without a quoted value");
            return;
        }
        r->at += 2;
        read_characters(r, '"');
        if (*r->at == '"')
            r->at++;
        else
            fail(r, "an attribute without an end");
    }
}

static void read_end_tag(reader *r) {
    char name[LONGEST];
    r->at += 2;
    read_name(r, name);
    if (r->depth == 0 || strcmp(r->open[r->depth - 1], name) != 0)
        fail(r, "an end tag without its start");
    else
        r->depth--;
    if (*r->at++ != '>')
        fail(r, "an end tag without '>'");
}

static void read_start_tag(reader *r) {
    if (r->depth == DEEPEST) {
        fail(r, "nested too deep for this reader");
        return;
    }
    r->at++;
    read_name(r, r->open[r->depth]);
    read_attributes(r);
    if (strncmp(r->at, "/>", 2) == 0) {
        r->at += 2;
    } else if (*r->at == '>') {
        r->at++;
        r->depth++;
    } else {
        fail(r, "a start tag without '>'");
    }
}

const char *trace_xml_fault(const char *text) {
    static const char declaration[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    reader r = {.at = text, .fault = ""};
    if (strncmp(text, declaration, strlen(declaration)) != 0)
        return "no XML declaration";
    r.at += strlen(declaration);
    int roots = 0;
    while (*r.at && !*r.fault) {
        if (strncmp(r.at, "</", 2) == 0) {
            read_end_tag(&r);
        } else if (*r.at == '<') {
            roots += r.depth == 0;
            read_start_tag(&r);
        } else if (r.depth == 0 && *r.at != '\n') {
            fail(&r, "text outside the root");
        } else {
            read_characters(&r, '<');
        }
    }
    if (r.depth > 0)
        fail(&r, "an element without its end");
    if (roots != 1)
        fail(&r, "not exactly one root");
    return r.fault;
}

int64_t trace_count(const char *text, const char *what) {
    int64_t count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        count++;
    return count;
}

void trace_string(const char *element, const char *attribute, char *out, int room) {
    char key[64];
    snprintf(key, sizeof key, " %s=\"", attribute);
    const char *end = strchr(element, '>');
    const char *at = strstr(element, key);
    out[0] = 0;
    if (!at || !end || at > end)
        return;
    at += strlen(key);
    int n = (int)strcspn(at, "\"");
    snprintf(out, (size_t)room, "%.*s", n, at);
}

double trace_number(const char *element, const char *attribute) {
    char text[64];
    trace_string(element, attribute, text, sizeof text);
    return *text ? strtod(text, NULL) : (double)NAN;
}

void trace_content(const char *element, char *out, int room) {
    const char *at = strchr(element, '>');
    int n = at ? (int)strcspn(at + 1, "<") : 0;
    snprintf(out, (size_t)room, "%.*s", n, at ? at + 1 : "");
}
