/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/placement.h"

int sheaf__ps_round_robin(uint32_t number, int servers)
{
    return (int)(number % (uint32_t)servers);
}

int sheaf__ps_greedy(uint64_t *loads, int servers, uint64_t load)
{
    int least = 0;
    for (int i = 1; i < servers; i++)
        if (loads[i] < loads[least])
            least = i;
    loads[least] += load;
    return least;
}
