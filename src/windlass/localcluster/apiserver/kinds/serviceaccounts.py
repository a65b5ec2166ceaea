"""Service accounts: nothing is peculiar to them but that a deletion answers with the account."""

from windlass.localcluster.apiserver.strategy import Strategy


class ServiceAccountStrategy(Strategy):
    returns_deleted = True
