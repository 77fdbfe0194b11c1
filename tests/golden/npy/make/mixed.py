"""python mixed.py OUTDIR: in OUTDIR/npy, mixed.npz, an archive of NumPy's some of whose members are no tensors, or damaged; and
texts.npz, texts of one to four bytes a character."""
import io
import os
import sys
import zipfile

import numpy as np

ARRAYS = {
    'floats': np.arange(3, dtype=np.float32),
    'objects': np.array([1, 'x', None], object),
    'dates': np.array(['2020-01-01'], 'M8[D]'),
    'fields': np.zeros(2, [('x', 'i4')]),
    'long': np.zeros(2, np.longdouble),
    'bytes': np.array([b'abc', b'd']),
    'texts': np.array(['a\xf1b', 'c']),
}


def saved(array):
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def member(name):
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


with zipfile.ZipFile(os.path.join(sys.argv[1], 'npy', 'mixed.npz'), 'w') as archive:
    for name, array in ARRAYS.items():
        archive.writestr(member(name + '.npy'), saved(array))
    archive.writestr(member('cut.npy'), saved(ARRAYS['floats'])[:40])
    archive.writestr(member('empty.npy'), b'')
    archive.writestr(member('note.txt'), 'no array')
np.savez(os.path.join(sys.argv[1], 'npy', 'texts.npz'), t=np.array([['', 'abc'], ['\xe9\u20ac\U0001f600', '\u07ff']]), b=np.array([b'x', b'yz']))
