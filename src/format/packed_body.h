/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of packed.c for one kind of processor. TARGET is the attribute of functions, NAME(x)
 * their names; ENDS(at) gives of 8 bytes a bit for each that ends a varint, JOIN(bytes, size) the
 * varint that the first `size` (1 to 8) of 8 bytes are. */

/* The numbers of the next bytes of which none is longer than 8: where each ends is found for all of
 * them first, so that none waits for the one before. The list has 8 bytes at least, so that those
 * before its end can be read at once. Returns how many bytes they took; `*n` counts on. */
TARGET static inline size_t NAME(words)(const uint8_t *at, const uint8_t *end, int64_t *out,
                                        size_t room, size_t *n)
{
    const size_t size = (size_t)(end - at);
    size_t start = 0, known = 0;
    uint64_t ends = 0;
    for (; known < WORDS && 8 * known + 8 <= size; known++)
        ends |= ENDS(at + 8 * known) << (8 * known);
    if (known < WORDS && 8 * known < size) {
        const size_t rest = size - 8 * known;
        ends |= ENDS(end - 8) >> (8 - rest) << (8 * known);
    }
    if ((ends & 0xff) == 0xff && *n + 8 <= room && size >= 8) {
        const uint64_t word = sheaf__load64(at);
        for (size_t i = 0; i < 8; i++)
            out[*n + i] = (int64_t)(word >> (8 * i) & 0x7f);
        *n += 8;
        return 8;
    }
    for (; ends; ends &= ends - 1) {
        const size_t next = (size_t)__builtin_ctzll(ends) + 1, left = size - start;
        if (next - start > 8)
            break;
        const uint64_t word =
            left >= 8 ? sheaf__load64(at + start) : sheaf__load64(end - 8) >> (8 * (8 - left));
        if (*n < room)
            out[*n] = (int64_t)JOIN(word, next - start);
        ++*n;
        start = next;
    }
    return start;
}

TARGET static bool NAME(ints)(const uint8_t *at, const uint8_t *end, int64_t *out, size_t room,
                              size_t *count)
{
    const bool wide = end - at >= 8;
    size_t n = 0;
    while (at < end) {
        const size_t taken = wide ? NAME(words)(at, end, out, room, &n) : 0;
        at += taken;
        if (taken > 0)
            continue;
        uint64_t v;
        at = sheaf__wire_varint(at, end, &v);
        if (!at)
            return false;
        if (n < room)
            out[n] = (int64_t)v;
        n++;
    }
    *count = n;
    return true;
}
