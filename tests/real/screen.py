"""A terminal for a program under test. Tests look at what stands on its screen, not at the bytes that were written: a program writes only
the cells that change, so a word is whole in its output only if none of it stood there before."""
import fcntl, os, pty, struct, termios, threading

import pyte

ROWS, COLUMNS = 40, 160


class Screen:
    """`theirs` is the file descriptor for the program. The test has to close it once the program has it."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
        self.cells, self.lock, self.said = pyte.Screen(COLUMNS, ROWS), threading.Lock(), b''
        self.stream = pyte.ByteStream(self.cells)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while got := os.read(self.ours, 65536):
                with self.lock:
                    self.stream.feed(got)
                    self.said += got
        except OSError:
            pass  # The program has ended.

    def text(self):
        with self.lock:
            return '\n'.join(line.rstrip() for line in self.cells.display)

    def all(self, limit):
        """Returns all bytes that a program has written that has ended."""
        self.reader.join(limit)
        return self.said.decode(errors='replace')

    def key(self, keys):
        os.write(self.ours, keys.encode())
