"""Ways for a scripted web server to fail."""

import socket


def hang_up(exchange):
    exchange.close_connection = True
    exchange.connection.shutdown(socket.SHUT_RDWR)


def failing(times, fail=hang_up):
    """An answer that fails so often before it is the usual one."""
    left = [times]

    def answer(exchange):
        left[0] -= 1
        if left[0] >= 0:
            fail(exchange)
        else:
            exchange.usual()

    return answer
