/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas of tf-semantics 12.2 for one type, with the roundings of R12.3. Included by
 * rule_kernel.c with T (the type), NAME(x), SQRT(x), POW(x, y). The flags are constants where the
 * bodies are inlined. */

#define BODY static inline __attribute__((always_inline)) void
/* `from` and `to` may be the same memory, never shifted: elements do not depend on each other. */
#define EACH(i) SHEAF__INDEPENDENT for (size_t i = 0; i < n; i++)

BODY NAME(sgd)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane, size_t n)
{
    const T *from = lane->from, *g = lane->gradient;
    T *to = lane->to;
    const T lr = (T)k->lr;
    EACH(i)
    {
        to[i] = from[i] - g[i] * lr;
    }
}

BODY NAME(momentum)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                    size_t n, bool nesterov)
{
    const T *from = lane->from, *g = lane->gradient;
    T *to = lane->to, *a = lane->slots[0];
    const T lr = (T)k->lr, m = (T)k->momentum;
    EACH(i)
    {
        T step = g[i] * lr;
        T now = a[i] * m - step;
        a[i] = now;
        to[i] = from[i] + (nesterov ? now * m - step : now);
    }
}

BODY NAME(momentum_v1)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                       size_t n, bool nesterov)
{
    const T *from = lane->from, *g = lane->gradient;
    T *to = lane->to, *a = lane->slots[0];
    const T lr = (T)k->lr, m = (T)k->momentum;
    EACH(i)
    {
        T now = a[i] * m + g[i];
        a[i] = now;
        to[i] = from[i] - (nesterov ? g[i] * lr + now * m * lr : now * lr);
    }
}

BODY NAME(adam)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                size_t n, bool amsgrad, bool squares)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *m = lane->slots[0], *v = lane->slots[1], *top = lane->slots[2];
    const T alpha = (T)k->alpha, gain1 = (T)k->gain1, gain2 = (T)k->gain2, eps = (T)k->epsilon;
    EACH(i)
    {
        T s = squares ? q[i] : g[i] * g[i];
        T mi = m[i] + (g[i] - m[i]) * gain1;
        T vi = v[i] + (s - v[i]) * gain2;
        T d = vi;
        m[i] = mi;
        v[i] = vi;
        if (amsgrad) {
            d = top[i] > vi ? top[i] : vi;
            top[i] = d;
        }
        to[i] = from[i] - mi * alpha / (SQRT(d) + eps);
    }
}

BODY NAME(adagrad)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                   size_t n, bool outside, bool squares)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *h = lane->slots[0];
    const T lr = (T)k->lr, eps = (T)k->epsilon;
    EACH(i)
    {
        T s = squares ? q[i] : g[i] * g[i];
        T hi = h[i] + s;
        h[i] = hi;
        to[i] = from[i] - g[i] * lr / (outside ? SQRT(hi) + eps : SQRT(hi + eps));
    }
}

BODY NAME(rmsprop)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                   size_t n, enum rmsprop_form form, bool momentum, bool centered, bool squares)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *v = lane->slots[0];
    T *a = lane->slots[1], *c = lane->slots[momentum ? 2 : 1];
    const T lr = (T)k->lr, rho = (T)k->rho, gain = (T)k->gain2, eps = (T)k->epsilon;
    const T m = (T)k->momentum;
    EACH(i)
    {
        T s = squares ? q[i] : g[i] * g[i];
        T vi = form == FUSED ? v[i] + (s - v[i]) * gain : v[i] * rho + s * gain;
        T d = vi;
        v[i] = vi;
        if (centered) {
            T ci = form == FUSED ? c[i] + (g[i] - c[i]) * gain : c[i] * rho + g[i] * gain;
            c[i] = ci;
            d = vi - ci * ci;
        }
        T u = g[i] * lr / (form == OUTSIDE ? SQRT(d) + eps : SQRT(d + eps));
        if (momentum) {
            u = a[i] * m + u;
            a[i] = u;
        }
        to[i] = from[i] - u;
    }
}

BODY NAME(ftrl)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                size_t n, bool power, bool squares)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *acc = lane->slots[0], *z = lane->slots[1];
    const T lr = (T)k->lr, l1 = (T)k->l1, l2 = (T)k->l2_twice, shrink = (T)k->shrink_twice;
    const T p = (T)k->power;
    EACH(i)
    {
        T s = squares ? q[i] : g[i] * g[i];
        T after = acc[i] + s;
        T root = power ? POW(after, p) : SQRT(after);
        T before = power ? POW(acc[i], p) : SQRT(acc[i]);
        T zi = z[i] + (g[i] + shrink * from[i]) - (root - before) / lr * from[i];
        T clipped = zi > l1 ? l1 : zi < -l1 ? -l1 : zi;
        acc[i] = after;
        z[i] = zi;
        to[i] = (clipped - zi) / (root / lr + l2);
    }
}

BODY NAME(adadelta)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                    size_t n, bool squares)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *a = lane->slots[0], *d = lane->slots[1];
    const T lr = (T)k->lr, rho = (T)k->rho, gain = (T)k->gain2, eps = (T)k->epsilon;
    EACH(i)
    {
        T s = squares ? q[i] : g[i] * g[i];
        T ai = a[i] * rho + s * gain;
        T step = SQRT(d[i] + eps) * g[i] / SQRT(ai + eps);
        /* Of repeated rows the steps are squared one by one, too. */
        T moved = squares ? (d[i] + eps) * s / (ai + eps) : step * step;
        a[i] = ai;
        d[i] = d[i] * rho + moved * gain;
        to[i] = from[i] - step * lr;
    }
}

BODY NAME(adamax)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                  size_t n, bool sizes)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *m = lane->slots[0], *v = lane->slots[1];
    const T alpha = (T)k->alpha, gain = (T)k->gain1, beta2 = (T)k->rho, eps = (T)k->epsilon;
    EACH(i)
    {
        T size = sizes ? q[i] : g[i] < 0 ? -g[i] : g[i];
        T mi = m[i] + (g[i] - m[i]) * gain;
        T vi = v[i] * beta2;
        vi = size > vi ? size : vi;
        m[i] = mi;
        v[i] = vi;
        to[i] = from[i] - mi * alpha / (vi + eps);
    }
}

BODY NAME(nadam)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                 size_t n, bool squares)
{
    const T *from = lane->from, *g = lane->gradient, *q = lane->squares;
    T *to = lane->to, *m = lane->slots[0], *v = lane->slots[1];
    const T lr = (T)k->lr, gain1 = (T)k->gain1, gain2 = (T)k->gain2, eps = (T)k->epsilon;
    const T ahead = (T)k->ahead, now = (T)k->now, correction = (T)k->correction;
    EACH(i)
    {
        T s = squares ? q[i] : g[i] * g[i];
        T mi = m[i] + (g[i] - m[i]) * gain1;
        T vi = v[i] + (s - v[i]) * gain2;
        m[i] = mi;
        v[i] = vi;
        to[i] = from[i] - (mi * ahead + g[i] * now) * lr / (SQRT(vi / correction) + eps);
    }
}

BODY NAME(lion)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                size_t n)
{
    const T *from = lane->from, *g = lane->gradient;
    T *to = lane->to, *m = lane->slots[0];
    const T lr = (T)k->lr, beta1 = (T)k->momentum, beta2 = (T)k->rho;
    const T gain1 = (T)k->gain1, gain2 = (T)k->gain2;
    EACH(i)
    {
        T way = m[i] * beta1 + g[i] * gain1;
        m[i] = m[i] * beta2 + g[i] * gain2;
        to[i] = from[i] - (way > 0 ? lr : way < 0 ? -lr : 0);
    }
}

BODY NAME(decay)(const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane,
                 size_t n)
{
    const T *from = lane->from;
    T *to = lane->to;
    const T lr = (T)k->lr, w = (T)k->decay;
    EACH(i)
    {
        to[i] = from[i] - from[i] * w * lr;
    }
}

#undef EACH
#undef BODY
