/* SPDX-License-Identifier: Apache-2.0 */
#include "format/packed.h"

#include "base/cpu.h"
#include "format/wire.h"

/* Words of a list that are looked at together. */
#define WORDS 8

#define TARGET
#define NAME(x)           x##_portable
#define ENDS(at)          sheaf__wire_ends(sheaf__load64(at))
#define JOIN(bytes, size) sheaf__wire_join((bytes), (size))
#include "format/packed_body.h"
#undef TARGET
#undef NAME
#undef ENDS
#undef JOIN

bool sheaf__packed_ints_portable(const uint8_t *at, const uint8_t *end, int64_t *out, size_t room,
                                 size_t *count)
{
    return ints_portable(at, end, out, room, count);
}

#ifdef __x86_64__
#include <immintrin.h>

#define LOW_BITS UINT64_C(0x7f7f7f7f7f7f7f7f)

#define TARGET            __attribute__((target("bmi,bmi2")))
#define NAME(x)           x##_bmi2
#define ENDS(at)          _pext_u64(~sheaf__load64(at), ~LOW_BITS)
#define JOIN(bytes, size) _pext_u64((bytes), _bzhi_u64(LOW_BITS, 8 * (unsigned)(size)))
#include "format/packed_body.h"

sheaf__packed_fn sheaf__packed_ints_bmi2(void)
{
    return sheaf__cpu_features()->bmi2 ? ints_bmi2 : NULL;
}
#else
sheaf__packed_fn sheaf__packed_ints_bmi2(void)
{
    return NULL;
}
#endif

sheaf__packed_fn sheaf__packed_ints(void)
{
    const sheaf__packed_fn bmi2 = sheaf__packed_ints_bmi2();
    return bmi2 ? bmi2 : sheaf__packed_ints_portable;
}
