/* vm_fast.h - numbers and identity without a call. Included by vm.c only. */
#ifndef SCRIPT_VM_FAST_H
#define SCRIPT_VM_FAST_H

#include "script/object.h"

static inline bool truth_fast(sv v, bool *ret)
{
    if (v.tag == SV_BOOL || v.tag == SV_INT) {
        *ret = v.i != 0;
        return true;
    }
    if (v.tag == SV_NONE) {
        *ret = false;
        return true;
    }
    return false;
}

static inline sv binary_fast(enum script_binary op, sv a, sv b)
{
    sv r = {.tag = SV_NULL};

    if (a.tag == SV_INT && b.tag == SV_INT) {
        switch (op) {
        case BINARY_ADD:
            r.tag = __builtin_add_overflow(a.i, b.i, &r.i) ? SV_NULL : SV_INT;
            break;
        case BINARY_SUB:
            r.tag = __builtin_sub_overflow(a.i, b.i, &r.i) ? SV_NULL : SV_INT;
            break;
        case BINARY_MUL:
            r.tag = __builtin_mul_overflow(a.i, b.i, &r.i) ? SV_NULL : SV_INT;
            break;
        case BINARY_FLOORDIV:
            if (b.i > 0 && a.i >= 0)
                r = sv_int(a.i / b.i);
            break;
        case BINARY_MOD:
            if (b.i > 0 && a.i >= 0)
                r = sv_int(a.i % b.i);
            break;
        default:
            break;
        }
    } else if (a.tag == SV_FLOAT && b.tag == SV_FLOAT) {
        if (op == BINARY_ADD)
            r = sv_float(a.f + b.f);
        else if (op == BINARY_SUB)
            r = sv_float(a.f - b.f);
        else if (op == BINARY_MUL)
            r = sv_float(a.f * b.f);
    }
    return r;
}

static inline sv compare_fast(enum script_compare op, sv a, sv b)
{
    bool r;

    switch (op) {
    case COMPARE_LT:
        r = a.i < b.i;
        break;
    case COMPARE_LE:
        r = a.i <= b.i;
        break;
    case COMPARE_EQ:
        r = a.i == b.i;
        break;
    case COMPARE_NE:
        r = a.i != b.i;
        break;
    case COMPARE_GT:
        r = a.i > b.i;
        break;
    default:
        r = a.i >= b.i;
        break;
    }
    return sv_bool(r);
}

static inline bool same(sv a, sv b)
{
    return sv_is_obj(a) ? sv_is_obj(b) && a.o == b.o : a.tag == b.tag && (a.tag < SV_BOOL || a.tag > SV_FLOAT || a.i == b.i);
}

#endif
